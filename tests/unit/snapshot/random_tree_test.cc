// The snapshot against a plain std::map of what each key must become, over many random key sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

using Path = std::vector<std::string>;  // components, so that the map's order is the walk's

Path Split(const std::string& text) {
  Path parts(1);
  for (const char c : text) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

std::string Join(const Path& path) {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : "/") + part;
  return text;
}

// Written from the rules of the design, sharing nothing with the code under test.
struct Model {
  std::map<Path, TestObject> files;
  std::map<Path, std::int64_t> directories;              // with the newest mtime below
  std::map<Path, std::map<std::string, bool>> children;  // name -> is a directory
  std::set<std::string> hidden;

  Model(const std::string& prefix, const std::vector<TestObject>& listing) {
    std::map<std::string, TestObject> last;
    for (const TestObject& object : listing) last[object.key] = object;
    directories[{}] = 0;
    for (const auto& [key, object] : last) Take(key.substr(prefix.size()), object);
    for (auto file = files.begin(); file != files.end();) {
      if (directories.contains(file->first)) {
        hidden.insert(file->second.key);
        file = files.erase(file);
      } else {
        ++file;
      }
    }
    for (const auto& [path, object] : files) Show({path.begin(), path.end() - 1}, object.mtime);
    for (const auto& [path, mtime] : directories) AddToParent(path, true);
    for (const auto& [path, object] : files) AddToParent(path, false);
  }

  void AddToParent(const Path& path, bool is_directory) {
    if (path.empty()) return;
    children[{path.begin(), path.end() - 1}][path.back()] = is_directory;
  }

  void Take(const std::string& relative, const TestObject& object) {
    Path path = Split(relative);
    if (relative.empty()) {
      if (object.size > 0) hidden.insert(object.key);
      return;
    }
    const bool marker = path.back().empty();
    if (marker) path.pop_back();
    const auto bad = [](const std::string& part) {
      return part.empty() || part == "." || part == ".." || part.size() > 255 ||
             part.find('\0') != std::string::npos;
    };
    if (std::ranges::any_of(path, bad) || path[0] == ".forebay") {
      hidden.insert(object.key);
    } else if (marker) {
      if (object.size > 0) hidden.insert(object.key);
      Show(path, object.mtime);
    } else {
      files[path] = object;
      Show({path.begin(), path.end() - 1}, 0);
    }
  }

  void Show(Path path, std::int64_t mtime) {
    for (;; path.pop_back()) {
      auto& newest = directories[path];
      newest = std::max(newest, mtime);
      if (path.empty()) return;
    }
  }
};

class RandomKeys {
 public:
  explicit RandomKeys(std::uint64_t seed) : random_(seed) {}

  std::vector<TestObject> Make(const std::string& prefix) {
    const int style = static_cast<int>(random_() % 5);
    std::vector<TestObject> objects(random_() % (style == 4 ? 300 : 50));
    for (TestObject& object : objects) {
      object.key = prefix + Key(style);
      object.size = random_() % 4 == 0 ? 0 : random_();
      object.size >>= 20 + random_() % 40;
      object.mtime = static_cast<std::int64_t>(random_() % 4'000'000'000);
      object.archived = random_() % 8 == 0;
      if (random_() % 2 == 0) object.etag = std::string(1 + random_() % 60, 'x');
      if (random_() % 3 == 0) object.etag = std::string(32, 'c') + "-" + std::to_string(random_());
    }
    // Some keys again, with other attributes.
    for (std::size_t i = 0; i + 9 < objects.size(); i += 10) objects[i].key = objects[i + 9].key;
    return objects;
  }
  std::size_t Below(std::size_t limit) { return random_() % limit; }

 private:
  std::string Key(int style) {
    switch (style) {
      case 0:  // collisions of everything with everything
        return Letters(std::string_view("ab/./\0-\xff", 8), random_() % 9);
      case 1:  // any bytes
        return Bytes(random_() % 30);
      case 2: {  // deep
        std::string key;
        for (std::size_t depth = random_() % 25; depth > 0; --depth) key += Letters("ab", 1) + "/";
        return key + Letters("abc", random_() % 3);
      }
      case 3:  // long components, about the limit
        return std::string(random_() % 3, 'a') + "/" + std::string(250 + random_() % 8, 'x') +
               Letters("a/", random_() % 4);
      default:  // like data sets
        return (random_() % 20 == 0 ? ".forebay/" : "n0") + std::to_string(random_() % 20) + "/" +
               std::to_string(random_() % 1000) + ".JPEG";
    }
  }
  std::string Letters(std::string_view letters, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text.push_back(letters[random_() % letters.size()]);
    return text;
  }
  std::string Bytes(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text.push_back(static_cast<char>(random_() % 256));
    return text;
  }

  std::mt19937_64 random_;
};

void ExpectFile(const Snapshot& snapshot, const SnapshotOptions& options, const Path& path,
                const TestObject& object, const SnapshotRow& row) {
  EXPECT_FALSE(row.is_directory());
  EXPECT_EQ(row.size, object.size);
  EXPECT_EQ(row.mtime_unix_s, object.mtime);
  EXPECT_EQ(row.archived, object.archived);
  EXPECT_EQ(snapshot.EtagOf(row), object.etag);
  EXPECT_EQ(snapshot.KeyOf(row), object.key);
  EXPECT_EQ(snapshot.PathOf(row), Join(path));
  EXPECT_EQ(snapshot.NameOf(row), path.back());
  EXPECT_EQ(snapshot.VersionOf(row),
            ComputeObjectVersion({options.domain, options.endpoint, options.bucket, object.key,
                                  object.etag, object.size}));
}

void ExpectDirectory(const Snapshot& snapshot, const SnapshotOptions& options, Model& model,
                     const Path& path, RandomKeys& keys) {
  const auto self = snapshot.Resolve(Join(path));
  ASSERT_TRUE(self && self->is_directory()) << Join(path);
  EXPECT_EQ(self->mtime_unix_s, model.directories.at(path));
  EXPECT_EQ(snapshot.PathOf(*self), Join(path));
  EXPECT_EQ(snapshot.KeyOf(*self), options.prefix + Join(path) + (path.empty() ? "" : "/"));
  const auto& children = model.children[path];
  DirectoryCursor cursor = snapshot.ReadDirectory(self->directory);
  std::uint64_t position = 0;
  for (const auto& [name, is_directory] : children) {
    ASSERT_TRUE(cursor.Next());
    ASSERT_EQ(cursor.name(), name);
    ASSERT_EQ(cursor.position(), ++position);
    const SnapshotRow row = cursor.row();
    ASSERT_EQ(row.is_directory(), is_directory);
    ASSERT_EQ(snapshot.Lookup(self->directory, name), row);
    ASSERT_EQ(snapshot.FindNodeid(row.nodeid), row);
    ASSERT_EQ(snapshot.ParentOf(row), self->directory);
    ASSERT_EQ(snapshot.Lookup(self->directory, name + "a").has_value(),
              children.contains(name + "a"));
    Path child = path;
    child.push_back(name);
    if (!is_directory) ExpectFile(snapshot, options, child, model.files.at(child), row);
  }
  EXPECT_FALSE(cursor.Next());
  EXPECT_FALSE(cursor.damaged());
  if (children.empty()) return;
  const std::size_t middle = keys.Below(children.size());
  DirectoryCursor resumed = snapshot.ReadDirectory(self->directory, middle);
  ASSERT_TRUE(resumed.Next());
  EXPECT_EQ(resumed.name(), std::next(children.begin(), static_cast<long>(middle))->first);
}

void ExpectSame(const Snapshot& snapshot, const SnapshotOptions& options, Model& model,
                RandomKeys& keys) {
  EXPECT_EQ(snapshot.totals().objects, model.files.size());
  EXPECT_EQ(snapshot.totals().directories, model.directories.size());
  EXPECT_EQ(snapshot.totals().hidden_keys, model.hidden.size());
  for (const auto& [path, mtime] : model.directories) {
    ASSERT_NO_FATAL_FAILURE(ExpectDirectory(snapshot, options, model, path, keys));
  }
  std::vector<std::string> walked;
  walked.reserve(model.files.size());
  for (const auto& [path, object] : model.files) walked.push_back(Join(path));
  EXPECT_EQ(FilesBelow(snapshot, kRootDirectory), walked);
  const auto some =
      std::next(model.directories.begin(), static_cast<long>(keys.Below(model.directories.size())));
  std::erase_if(walked, [&](const std::string& path) {
    return !some->first.empty() && !path.starts_with(Join(some->first) + "/");
  });
  EXPECT_EQ(FilesBelow(snapshot, snapshot.Resolve(Join(some->first))->directory), walked);
  std::set<std::string> hidden;
  EXPECT_TRUE(snapshot.ForEachHidden([&](std::string_view key, HiddenReason) {
    hidden.emplace(key);
    return true;
  }));
  EXPECT_EQ(hidden, model.hidden);
}

TEST(Snapshot, AgreesWithAMapOverRandomTrees) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));

  RandomKeys keys(seed);
  const TempDir dir;
  for (int round = 0; round < 4'000; ++round) {
    const std::string prefix = round % 2 == 0 ? "" : "data/train/";
    const std::vector<TestObject> listing = keys.Make(prefix);
    SnapshotOptions options = TestOptions(prefix);
    options.nodeid_bits = round % 4 == 0 ? 11 : 62;
    // From a file per key to all in memory.
    if (round % 3 == 0) options.memory_bytes = 1 + keys.Below(4'000);
    const auto snapshot = Build(options, listing, dir.Path("s"));
    ASSERT_NE(snapshot, nullptr) << "round " << round;
    Model model(prefix, listing);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*snapshot, options, model, keys)) << "round " << round;
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace forebay
