#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// A flag or an argument of the command line. Declaring it does not depend on the library that
/// parses it.
///
/// What its value is called also says how a shell completes it: TARGET, LINK (or the argument
/// NAME), NODE, TASK (or ID, behind a verb that begins with "node" or "task"), FILE and DIR by what
/// there is; "a|b|c" by these words.
struct Option {
  std::string name;        ///< "--as"; of an argument "TARGET".
  std::string short_name;  ///< "-o" or "".
  std::string value;       ///< What --help calls its value; "" = a switch, or an argument's name.
  std::string help;
  bool required = false;
  bool repeats = false;  ///< May be given several times; else the last one counts.
  /// Called with the text, or with "" for a switch. Its error is exit 2, behind the option's name.
  std::function<Status(const std::string&)> take;

  bool positional() const { return !name.starts_with('-'); }
};

/// What a verb, or the program itself, can be told.
class Options {
 public:
  void Switch(std::string name, std::string help, bool& out);
  void Text(std::string name, std::string value, std::string help, std::string& out);
  void Flag(std::string name, std::string value, std::string help,
            std::function<Status(const std::string&)> take);
  /// A flag that may be given several times: adds its texts to `out`.
  void Texts(std::string name, std::string value, std::string help, std::vector<std::string>& out);
  /// One of a few words; any other is exit 2 and names the nearest. A `name` without "--" makes it
  /// a required argument.
  void Choice(std::string name, std::vector<std::string> words, std::string help, std::string& out);
  void Argument(std::string name, std::string help, std::string& out);
  /// An argument that is given once or several times: adds its texts to `out`.
  void Arguments(std::string name, std::string help, std::vector<std::string>& out);
  void OptionalArgument(std::string name, std::string help, std::string& out);
  void Add(Option option) { all_.push_back(std::move(option)); }

  const std::vector<Option>& all() const { return all_; }

 private:
  std::vector<Option> all_;
};

}  // namespace forebay
