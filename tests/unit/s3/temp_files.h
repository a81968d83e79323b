#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace forebay {

/// A fresh directory for the files of one test; it ends with it.
class TempFiles {
 public:
  TempFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "forebay-s3-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no temporary directory";
    root_ = pattern;
  }
  ~TempFiles() { std::filesystem::remove_all(root_); }
  TempFiles(const TempFiles&) = delete;
  TempFiles& operator=(const TempFiles&) = delete;

  /// Writes a file whole, as an editor does: at once, by a rename. Returns its path.
  std::string Write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = root_ / name;
    const std::filesystem::path fresh = root_ / (name + ".new");
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(fresh) << text;
    std::filesystem::rename(fresh, path);
    return path.string();
  }
  std::string Path(const std::string& name) const { return (root_ / name).string(); }

 private:
  std::filesystem::path root_;
};

}  // namespace forebay
