#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay {

/// A document whose generated part stands between two marker lines; the rest is written by hand.
struct GeneratedDoc {
  std::string_view file;  ///< "docs/CONFIGURATION.md".
  std::string content;    ///< What belongs between the markers.
};

/// docs/CONFIGURATION.md from the option tables, docs/METRICS.md from the metric definitions,
/// docs/ALERTS.md from the table of alerts,
/// docs/SECURITY.md from the table of who may ask what.
std::vector<GeneratedDoc> GeneratedDocs();

/// `text` with `content` between its markers; "" when it lacks them.
std::string WithGenerated(std::string_view text, std::string_view content);

}  // namespace forebay
