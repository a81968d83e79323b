#include "common/config/sections.h"

#include <algorithm>
#include <utility>

namespace forebay {

std::vector<ConfigSection> AllConfigs::Sections() {
  return {CoordinatorSection(coordinator),
          NodeSection(node),
          MountSection(mount),
          S3Section(s3),
          TrustSection(trust),
          LogSection(log)};
}

std::vector<ConfigSection> AllConfigs::SectionsBeside(const std::vector<ConfigSection>& own) {
  std::vector<ConfigSection> others;
  for (ConfigSection& section : Sections()) {
    const bool mine = std::ranges::any_of(
        own, [&section](const ConfigSection& o) { return o.name == section.name; });
    if (!mine) others.push_back(std::move(section));
  }
  return others;
}

}  // namespace forebay
