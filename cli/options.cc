#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "common/base/nearest.h"

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

void Options::Texts(std::string name, std::string value, std::string help,
                    std::vector<std::string>& out) {
  Flag(std::move(name), std::move(value), std::move(help), [&out](const std::string& text) {
    out.push_back(text);
    return Status();
  });
  all_.back().repeats = true;
}

void Options::Choice(std::string name, std::vector<std::string> words, std::string help,
                     std::string& out) {
  std::string value = fmt::format("{}", fmt::join(words, "|"));
  Flag(std::move(name), std::move(value), std::move(help),
       [words = std::move(words), &out](const std::string& text) -> Status {
         if (std::ranges::find(words, text) == words.end()) {
           return Fail(Code::kInvalid, fmt::format("\"{}\" is none of {}; {}", text,
                                                   fmt::join(words, ", "), Suggest(text, words)));
         }
         out = text;
         return {};
       });
  all_.back().required = all_.back().positional();
}

void Options::OptionalArgument(std::string name, std::string help, std::string& out) {
  Argument(std::move(name), std::move(help), out);
  all_.back().required = false;
}

void Options::Arguments(std::string name, std::string help, std::vector<std::string>& out) {
  all_.push_back({.name = std::move(name),
                  .short_name = "",
                  .value = "",
                  .help = std::move(help),
                  .required = true,
                  .repeats = true,
                  .take = [&out](const std::string& text) -> Status {
                    out.push_back(text);
                    return {};
                  }});
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
