// The key rules over very many small sets of keys of any bytes: what is shown, and what is hidden
// for which reason. random_tree_test.cc looks at fewer sets, and at everything about them.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOREBAY_SLOW_BUILD
#endif
#endif
#ifdef FOREBAY_SLOW_BUILD
constexpr int kSets = 5'000;
#else
constexpr int kSets = 100'000;
#endif

using Components = std::vector<std::string>;

Components Split(const std::string& text) {
  Components parts(1);
  for (const char c : text) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

std::string Join(const Components& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "/") + part;
  return text;
}

/// Written from the rules of the design; the first component that breaks one says the reason.
std::optional<HiddenReason> ReasonOf(const Components& path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string& name = path[i];
    if (name.empty()) return HiddenReason::kEmptyComponent;
    if (name == "." || name == "..") return HiddenReason::kDotComponent;
    if (name.size() > 255) return HiddenReason::kTooLong;
    if (name.find('\0') != std::string::npos) return HiddenReason::kNulByte;
    if (i == 0 && name == ".forebay") return HiddenReason::kReservedName;
  }
  return std::nullopt;
}

struct Shown {
  std::set<std::string> files;
  std::set<std::string> directories;
  std::map<std::string, HiddenReason> hidden;
};

Shown Model(const std::map<std::string, std::uint64_t>& keys) {
  Shown shown;
  std::map<std::string, std::string> files;  // path to key
  const auto show_parents = [&shown](Components path) {
    for (path.pop_back(); !path.empty(); path.pop_back()) shown.directories.insert(Join(path));
  };
  for (const auto& [key, size] : keys) {
    Components path = Split(key);
    const bool marker = path.back().empty();
    if (marker) path.pop_back();
    if (path.empty()) {  // the link's own prefix
      if (size > 0) shown.hidden[key] = HiddenReason::kMarkerWithBytes;
    } else if (const auto reason = ReasonOf(path)) {
      shown.hidden[key] = *reason;
    } else if (marker) {
      if (size > 0) shown.hidden[key] = HiddenReason::kMarkerWithBytes;
      path.emplace_back();
      show_parents(path);
    } else {
      files[Join(path)] = key;
      show_parents(path);
    }
  }
  for (const auto& [path, key] : files) {
    if (shown.directories.contains(path)) {
      shown.hidden[key] = HiddenReason::kShadowedByDirectory;
    } else {
      shown.files.insert(path);
    }
  }
  return shown;
}

class Keys {
 public:
  explicit Keys(std::uint64_t seed) : random_(seed) {}

  std::map<std::string, std::uint64_t> Make() {
    std::map<std::string, std::uint64_t> keys;
    for (std::size_t i = random_() % 9; i > 0; --i) keys[Key()] = random_() % 3;
    keys.erase("");
    return keys;
  }

 private:
  std::string Key() {
    std::string key;
    for (std::size_t depth = 1 + random_() % 3; depth > 0; --depth) {
      key += Component();
      if (depth > 1 || random_() % 6 == 0) key += '/';
    }
    return key;
  }
  std::string Component() {
    static const std::string kNames[] = {"a", "b", "", ".", "..", ".forebay", "a.b", "a-b", "A"};
    switch (random_() % 8) {
      case 0:
        return std::string(253 + random_() % 5, 'x');
      case 1:
      case 2:
      case 3: {
        std::string bytes;  // any but the separator
        for (std::size_t i = random_() % 4; i > 0; --i) {
          const char c = static_cast<char>(random_());
          bytes.push_back(c == '/' ? '0' : c);
        }
        return bytes;
      }
      default:
        return kNames[random_() % std::size(kNames)];
    }
  }

  std::mt19937_64 random_;
};

void ExpectShown(const Snapshot& snapshot, const Shown& model) {
  std::set<std::string> files;
  ASSERT_TRUE(snapshot.ForEachFile(kRootDirectory, [&](const SnapshotRow&, std::string_view path) {
    files.emplace(path);
    return true;
  }));
  ASSERT_EQ(files, model.files);
  std::set<std::string> directories;
  for (std::uint32_t d = 1; d < snapshot.directories(); ++d) {
    directories.emplace(snapshot.DirectoryAt(d)->path);
  }
  ASSERT_EQ(directories, model.directories);
  std::map<std::string, HiddenReason> hidden;
  ASSERT_TRUE(snapshot.ForEachHidden([&](std::string_view key, HiddenReason reason) {
    hidden.emplace(key, reason);
    return true;
  }));
  ASSERT_EQ(hidden, model.hidden);
  std::array<std::uint64_t, kHiddenReasonSlots> counts{};
  for (const auto& [key, reason] : model.hidden) ++counts[static_cast<std::size_t>(reason)];
  ASSERT_EQ(snapshot.totals().hidden_by_reason, counts);
  ASSERT_EQ(snapshot.totals().hidden_keys, model.hidden.size());
}

TEST(KeySets, EveryKeyIsShownOrHiddenForItsReason) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Keys random(seed);
  const TempDir dir;
  for (int round = 0; round < kSets; ++round) {
    const std::map<std::string, std::uint64_t> keys = random.Make();
    SnapshotBuilder builder(TestOptions(), dir.Path("s"));
    for (const auto& [key, size] : keys) {
      ASSERT_TRUE(builder.Add({.key = key, .size = size, .etag = "e"}));
    }
    ASSERT_TRUE(builder.Finish());
    const auto snapshot = Snapshot::Open(dir.Path("s"));
    ASSERT_TRUE(snapshot);
    ASSERT_NO_FATAL_FAILURE(ExpectShown(**snapshot, Model(keys))) << "round " << round;
  }
}

}  // namespace
}  // namespace forebay
