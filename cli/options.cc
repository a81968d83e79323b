#include "cli/options.h"

#include <utility>

namespace forebay {
namespace {

std::function<Status(const std::string&)> StoreIn(std::string& out) {
  return [&out](const std::string& text) -> Status {
    out = text;
    return {};
  };
}

}  // namespace

void Options::Switch(std::string name, std::string help, bool& out) {
  all_.push_back({.name = std::move(name),
                  .short_name = "",
                  .value = "",
                  .help = std::move(help),
                  .required = false,
                  .take = [&out](const std::string&) -> Status {
                    out = true;
                    return {};
                  }});
}

void Options::Text(std::string name, std::string value, std::string help, std::string& out) {
  Flag(std::move(name), std::move(value), std::move(help), StoreIn(out));
}

void Options::Flag(std::string name, std::string value, std::string help,
                   std::function<Status(const std::string&)> take) {
  all_.push_back({.name = std::move(name),
                  .short_name = "",
                  .value = std::move(value),
                  .help = std::move(help),
                  .required = false,
                  .take = std::move(take)});
}

void Options::Argument(std::string name, std::string help, std::string& out) {
  all_.push_back({.name = std::move(name),
                  .short_name = "",
                  .value = "",
                  .help = std::move(help),
                  .required = true,
                  .take = StoreIn(out)});
}

}  // namespace forebay
