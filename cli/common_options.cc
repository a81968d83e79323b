#include "cli/common_options.h"

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <utility>

#include "common/base/host_port.h"
#include "common/base/nearest.h"
#include "common/base/units.h"

namespace forebay {
namespace {

Status TakeOutput(const std::string& text, OutputFormat& out) {
  if (text == "table") {
    out = OutputFormat::kTable;
  } else if (text == "wide") {
    out = OutputFormat::kWide;
  } else if (text == "json") {
    out = OutputFormat::kJson;
  } else {
    return Fail(Code::kInvalid, fmt::format("\"{}\" is none of table, wide and json; {}", text,
                                            Suggest(text, {"table", "wide", "json"})));
  }
  return {};
}

}  // namespace

Status TakeCoordinators(const std::string& text, std::vector<std::string>& out) {
  out.clear();
  std::istringstream list(text);
  std::string address;
  while (std::getline(list, address, ',')) {
    if (!address.starts_with("unix:")) {
      Result<HostPort> place = HostPort::Parse(address);
      if (!place) return Fail(place.error());
    }
    out.push_back(address);
  }
  if (out.empty()) return Fail(Code::kInvalid, "it is empty; give HOST:PORT[,HOST:PORT…]");
  return {};
}

Options GlobalOptions(CommandLine& line, OutputFormat& output) {
  Options options;
  options.Flag(
      "--coordinator", "HOST:PORT[,…]",
      "where the coordinator is (default 127.0.0.1:7440, or FOREBAY_COORDINATOR)",
      [&line](const std::string& text) { return TakeCoordinators(text, line.coordinators); });
  options.Add({.name = "--output",
               .short_name = "-o",
               .value = "table|wide|json",
               .help = "how results are printed; json is described in docs/JSON.md",
               .required = false,
               .take = [&output](const std::string& text) { return TakeOutput(text, output); }});
  options.Flag("--timeout", "TIME", "give up after this time, with exit 4: 30s, 5m",
               [&line](const std::string& text) -> Status {
                 Result<std::chrono::milliseconds> timeout = ParseDuration(text);
                 if (!timeout) return Fail(timeout.error());
                 if (timeout->count() == 0) return Fail(Code::kInvalid, "0 is no time to wait");
                 line.timeout = *timeout;
                 return {};
               });
  options.Switch("--version", "print the version", line.version);
  options.Add({.name = "--help",
               .short_name = "-h",
               .value = "",
               .help = "print this text",
               .required = false,
               .take = [&line](const std::string&) -> Status {
                 line.help = true;
                 return {};
               }});
  return options;
}

Options VerbOptions(const VerbRow& row, Verb& verb, CommandLine& line) {
  Options options;
  verb.Declare(options);
  switch (row.kind) {
    case VerbKind::kPlain:
      break;
    case VerbKind::kList:
      line.watch.Declare(options);
      break;
    case VerbKind::kTask:
      options.Switch("--wait", "wait until it is done (the default)", line.wait);
      options.Switch("--detach", "do not wait; print the task's id", line.detach);
      break;
  }
  return options;
}

}  // namespace forebay
