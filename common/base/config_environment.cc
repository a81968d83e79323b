#include <spdlog/fmt/fmt.h>

#include "common/base/config_sources.h"
#include "common/base/nearest.h"

namespace forebay {

namespace {

/// Kubernetes gives every pod such variables for each service of its namespace, and a service may
/// well be called forebay-node: FOREBAY_NODE_SERVICE_HOST, FOREBAY_NODE_PORT_7441_TCP_ADDR.
bool FromKubernetes(std::string_view key) {
  return key == "PORT" || key.starts_with("PORT_") || key.starts_with("SERVICE_");
}

/// What stands in front of an option's key: "FOREBAY_NODE_".
std::string Prefix(const ConfigSection& section) {
  const ConfigOption& any = section.options.front();
  return any.environment.substr(0, any.environment.size() - any.key.size());
}

class Reader {
 public:
  Reader(const Environment& environment, std::vector<std::string>& faults)
      : environment_(environment), faults_(faults) {}

  void Read(ConfigSection& section, std::vector<ConfigEntry>* entries) {
    if (section.options.empty()) return;
    const std::string prefix = Prefix(section);
    for (auto it = environment_.lower_bound(prefix);
         it != environment_.end() && it->first.starts_with(prefix); ++it) {
      ConfigOption* option = Find(section, it->first);
      if (option == nullptr) {
        ReportUnknown(section, it->first, it->first.substr(prefix.size()));
      } else if (entries != nullptr) {
        std::vector<std::string> texts =
            option->value.is_list ? SplitList(it->second) : std::vector<std::string>{it->second};
        entries->push_back({option, std::move(texts), "environment " + it->first});
      }
    }
  }

 private:
  static ConfigOption* Find(ConfigSection& section, const std::string& name) {
    for (ConfigOption& option : section.options) {
      if (option.environment == name) return &option;
    }
    return nullptr;
  }

  void ReportUnknown(const ConfigSection& section, const std::string& name, std::string_view key) {
    if (FromKubernetes(key)) return;
    std::vector<std::string> known;
    known.reserve(section.options.size());
    for (const ConfigOption& option : section.options) known.push_back(option.environment);
    faults_.push_back(
        fmt::format("environment {}: no such option; {}", name, Suggest(name, known)));
  }

  const Environment& environment_;
  std::vector<std::string>& faults_;
};

}  // namespace

std::vector<ConfigEntry> ReadEnvironment(const Environment& environment,
                                         std::vector<ConfigSection>& own,
                                         std::vector<ConfigSection>& others,
                                         std::vector<std::string>& faults) {
  std::vector<ConfigEntry> entries;
  Reader reader(environment, faults);
  for (ConfigSection& section : own) reader.Read(section, &entries);
  for (ConfigSection& section : others) reader.Read(section, nullptr);
  return entries;
}

}  // namespace forebay
