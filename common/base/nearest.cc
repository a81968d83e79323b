#include "common/base/nearest.h"

#include <algorithm>
#include <limits>

namespace forebay {

namespace {
char Plain(char c) {
  if (c == '_') return '-';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
}  // namespace

std::size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the table of optimal string alignment: two back (for swaps), one back, this one.
  std::vector<std::size_t> two_back(b.size() + 1);
  std::vector<std::size_t> back(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_back.swap(back);
    back.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = Plain(a[i - 1]) == Plain(b[j - 1]);
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (same ? 0U : 1U)});
      if (i > 1 && j > 1 && Plain(a[i - 1]) == Plain(b[j - 2]) &&
          Plain(a[i - 2]) == Plain(b[j - 1])) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = EditDistance(word, candidate);
    const bool near = 2 * distance <= std::max(word.size(), candidate.size());
    if (near && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string Suggest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(word, candidates);
  if (!nearest.empty()) return "did you mean " + nearest + "?";
  std::string text = "known are ";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0) text += i + 1 == candidates.size() ? " and " : ", ";
    text += candidates[i];
  }
  return text;
}

}  // namespace forebay
