#include <fmt/format.h>
#include <time.h>

#include <boost/json/array.hpp>
#include <chrono>
#include <ostream>
#include <string>
#include <utility>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "common/base/wall_clock.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

using NotTold = google::protobuf::RepeatedPtrField<std::string>;

boost::json::object PinJson(const proto::PinState& pin) {
  boost::json::object row;
  PutBytes(row, "target", pin.target());
  row["link"] = pin.link();
  row["objects"] = pin.objects();
  row["bytes"] = pin.bytes();
  row["cached_bytes"] = pin.cached_bytes();
  row["unknown_bytes"] = pin.unknown_bytes();
  row["cached_ratio"] = Ratio(pin.cached_bytes(), pin.bytes());
  row["since"] = Rfc3339(pin.since_unix_s());
  row["until"] = pin.until_unix_s() == 0 ? boost::json::value()
                                         : boost::json::value(Rfc3339(pin.until_unix_s()));
  row["job"] = pin.job().empty() ? boost::json::value() : boost::json::value(ValidUtf8(pin.job()));
  return row;
}

std::string Lease(const proto::PinState& pin) {
  std::string text;
  if (pin.until_unix_s() != 0) text = Rfc3339(pin.until_unix_s());
  if (!pin.job().empty()) text += (text.empty() ? "" : ", ") + ("end of job " + pin.job());
  return text.empty() ? "unpin" : text;
}

boost::json::array NotToldJson(const NotTold& nodes) {
  boost::json::array rows;
  for (const std::string& node : nodes) rows.emplace_back(ValidUtf8(node));
  return rows;
}

void PrintNotTold(const Console& console, const NotTold& nodes) {
  for (const std::string& node : nodes) {
    console.out << fmt::format("node {} does not know it yet: it will when it answers again\n",
                               Escaped(node));
  }
  console.out << std::flush;
}

class PinVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "what is not to be evicted, now and when it is cached later", text_);
    options.Flag("--ttl", "TIME", "for so long: 7d",
                 [this](const std::string& text) { return TakeTtl(text); });
    options.Flag("--until", "TIME", "until then: 2026-12-31T18:00:00Z",
                 [this](const std::string& text) { return TakeUntil(text); });
    options.Text("--for-job", "ID", "until this job has read nothing for 10 minutes", job_);
  }

  Outcome Run(VerbContext& context) override {
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::PinRequest request;
    request.mutable_target()->set_text(*target);
    request.set_until_unix_s(until_unix_s_);
    request.set_job(job_);
    auto reply = Ask<proto::PinReply>(context.session, Method::kPin, request);
    if (!reply) return std::unexpected(reply.error());
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["changed"] = reply->changed();
      document["pin"] = PinJson(reply->pin());
      document["not_told"] = NotToldJson(reply->not_told());
      PrintDocument(console, document);
    } else {
      const proto::PinState& pin = reply->pin();
      console.out << fmt::format("{} is pinned until {}: {} objects, {}, {} of it cached\n",
                                 Escaped(pin.target()), Escaped(Lease(pin)),
                                 HumanCount(pin.objects()), HumanBytes(pin.bytes()),
                                 HumanPercent(Ratio(pin.cached_bytes(), pin.bytes())));
      PrintNotTold(console, reply->not_told());
    }
    return reply->not_told().empty() ? Exit::kDone : Exit::kPartly;
  }

 private:
  Status TakeTtl(const std::string& text) {
    const Result<std::chrono::milliseconds> ttl = ParseDuration(text);
    if (!ttl) return Fail(ttl.error());
    if (*ttl < std::chrono::seconds(1))
      return Fail(Code::kInvalid, fmt::format("\"{}\" is less than 1s", text));
    return Set(UnixSeconds() + ttl->count() / 1000);
  }
  Status TakeUntil(const std::string& text) {
    std::tm time{};
    const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
    if (end == nullptr || *end != '\0') {
      return Fail(Code::kInvalid,
                  fmt::format("\"{}\" is no time as 2026-12-31T18:00:00Z (UTC)", text));
    }
    return Set(::timegm(&time));
  }
  Status Set(std::int64_t until) {
    if (until_unix_s_ != 0) return Fail(Code::kInvalid, "--ttl and --until do not go together");
    if (until <= UnixSeconds()) return Fail(Code::kInvalid, "that time is over");
    until_unix_s_ = until;
    return {};
  }

  std::string text_;
  std::string job_;
  std::int64_t until_unix_s_ = 0;
};

class UnpinVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "as it was pinned; other pins that cover it stay", text_);
  }

  Outcome Run(VerbContext& context) override {
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::UnpinRequest request;
    request.mutable_target()->set_text(*target);
    auto reply = Ask<proto::UnpinReply>(context.session, Method::kUnpin, request);
    if (!reply) return std::unexpected(reply.error());
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      PutBytes(document, "target", *target);
      document["removed"] = reply->removed();
      document["not_told"] = NotToldJson(reply->not_told());
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("{} {}\n", Escaped(*target),
                                 reply->removed() ? "is no longer pinned" : "was not pinned");
      PrintNotTold(console, reply->not_told());
    }
    return reply->not_told().empty() ? Exit::kDone : Exit::kPartly;
  }

 private:
  std::string text_;
};

class PinsVerb final : public Verb {
 public:
  void Declare(Options& /*options*/) override {}

  Outcome Run(VerbContext& context) override {
    auto reply =
        Ask<proto::ListPinsReply>(context.session, Method::kListPins, proto::ListPinsRequest());
    if (!reply) return std::unexpected(reply.error());
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      boost::json::array pins;
      for (const proto::PinState& pin : reply->pins()) pins.emplace_back(PinJson(pin));
      document["pins"] = std::move(pins);
      PrintDocument(console, document);
      return Exit::kDone;
    }
    if (reply->pins().empty()) {
      console.out << "nothing is pinned: `forebay pin TARGET` keeps what it caches\n" << std::flush;
      return Exit::kDone;
    }
    Table table({{.heading = "TARGET"},
                 {.heading = "OBJECTS", .right = true},
                 {.heading = "BYTES", .right = true},
                 {.heading = "CACHED", .right = true},
                 {.heading = "SINCE"},
                 {.heading = "UNTIL"}});
    for (const proto::PinState& pin : reply->pins()) {
      const std::string_view more = pin.unknown_bytes() > 0 ? "?" : "";
      table.Add({Cell(pin.target()), Cell(HumanCount(pin.objects())), Cell(HumanBytes(pin.bytes())),
                 Cell(fmt::format("{}{}", HumanBytes(pin.cached_bytes()), more)),
                 Cell(Rfc3339(pin.since_unix_s())), Cell(Lease(pin))});
    }
    table.Print(console);
    return Exit::kDone;
  }
};

}  // namespace

std::unique_ptr<Verb> MakePin() { return std::make_unique<PinVerb>(); }
std::unique_ptr<Verb> MakeUnpin() { return std::make_unique<UnpinVerb>(); }
std::unique_ptr<Verb> MakePins() { return std::make_unique<PinsVerb>(); }

}  // namespace forebay
