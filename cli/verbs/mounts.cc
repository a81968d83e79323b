#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// A mount asks every 2 s, and the next coordinator when one does not answer.
constexpr std::chrono::seconds kAllHaveAsked{10};

double Seconds(std::uint64_t ms) { return static_cast<double>(ms) / 1000; }

void PutKnown(boost::json::object& row, std::string_view key, const std::string& text) {
  if (text.empty()) {
    row[key] = nullptr;
  } else {
    PutBytes(row, key, text);
  }
}

boost::json::object MountJson(const proto::MountState& mount) {
  boost::json::object row;
  PutKnown(row, "host", mount.host());
  PutKnown(row, "mountpoint", mount.mountpoint());
  PutKnown(row, "source", mount.source());
  PutKnown(row, "version", mount.version());
  PutKnown(row, "client", mount.client());
  row["address"] = mount.address();
  row["heard_seconds"] = Seconds(mount.heard_ms());
  return row;
}

class MountsVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.OptionalArgument("LINK", "only those that show this link, or a part of this set",
                             link_);
  }

  Outcome Run(VerbContext& context) override {
    auto all = AskForAll(context.session);
    if (!all) return std::unexpected(all.error());
    const Console& console = context.console;
    if (console.json()) {
      PrintJson(console, *all);
      return Exit::kDone;
    }
    if (!all->mounts.empty()) {
      PrintTable(console, all->mounts);
    } else if (link_.empty()) {
      console.out << "no mounts: `forebay-mount LINK MOUNTPOINT` makes one, which is here within "
                     "seconds\n"
                  << std::flush;
    } else {
      console.out << fmt::format("no mount shows '{}'; a new one is here within seconds\n",
                                 Escaped(link_))
                  << std::flush;
    }
    const std::chrono::milliseconds listening(all->listening_ms);
    if (listening < kAllHaveAsked) {
      console.err << fmt::format(
          "the coordinator has been asked for {} only: mounts that have not asked it yet are "
          "missing\n",
          HumanDuration(listening));
    }
    return Exit::kDone;
  }

 private:
  struct All {
    std::vector<proto::MountState> mounts;  // by host and mount point
    std::uint64_t listening_ms = 0;
  };

  std::expected<All, Failure> AskForAll(Session& session) const {
    All all;
    proto::ListMountsRequest request;
    request.set_link(link_);
    for (bool more = true; more;) {
      auto page = Ask<proto::ListMountsReply>(session, Method::kListMounts, request);
      if (!page) return std::unexpected(page.error());
      all.listening_ms = page->listening_ms();
      for (proto::MountState& mount : *page->mutable_mounts())
        all.mounts.push_back(std::move(mount));
      // They only go forward.
      more = page->next() > request.after();
      request.set_after(page->next());
    }
    std::ranges::sort(all.mounts, {}, [](const proto::MountState& mount) {
      return std::tie(mount.host(), mount.mountpoint(), mount.client(), mount.address());
    });
    return all;
  }

  static void PrintJson(const Console& console, const All& all) {
    boost::json::array rows;
    for (const proto::MountState& mount : all.mounts) rows.emplace_back(MountJson(mount));
    boost::json::object document = NewDocument();
    document["listening_seconds"] = Seconds(all.listening_ms);
    document["mounts"] = std::move(rows);
    PrintDocument(console, document);
  }

  static void PrintTable(const Console& console, const std::vector<proto::MountState>& mounts) {
    std::vector<Table::Column> columns = {{.heading = "HOST"},
                                          {.heading = "MOUNTPOINT"},
                                          {.heading = "LINK"},
                                          {.heading = "VERSION"},
                                          {.heading = "HEARD"}};
    if (console.wide()) {
      columns.push_back({.heading = "CLIENT"});
      columns.push_back({.heading = "ADDRESS"});
    }
    Table table(std::move(columns));
    const auto known = [](const std::string& text) { return Cell(text.empty() ? "-" : text); };
    for (const proto::MountState& mount : mounts) {
      const std::chrono::milliseconds ago(mount.heard_ms());
      std::vector<Cell> row = {known(mount.host()), known(mount.mountpoint()),
                               known(mount.source()), known(mount.version()),
                               Cell(HumanDuration(ago) + " ago")};
      if (console.wide()) {
        row.push_back(known(mount.client()));
        row.push_back(known(mount.address()));
      }
      table.Add(std::move(row));
    }
    table.Print(console);
  }

  std::string link_;
};

}  // namespace

std::unique_ptr<Verb> MakeMounts() { return std::make_unique<MountsVerb>(); }

}  // namespace forebay
