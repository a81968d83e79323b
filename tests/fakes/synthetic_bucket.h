#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/fakes/scripted_s3.h"

namespace forebay::fakes {

/// A bucket of millions of objects that nobody stores: key, size, ETag and date of the i-th come
/// from a formula, and keys grow with i, so that a page anywhere costs a binary search. Answers
/// ListObjectsV2 without a delimiter as AWS writes it. Thread-safe.
class SyntheticBucket {
 public:
  enum class Shape : std::uint8_t {
    kFlat,      ///< images/000000017.jpg
    kImageNet,  ///< train/n01440764/n01440764_00017.JPEG, 1,300 to a folder
    kDeep,      ///< deep/a0/b0/c0/d1/e7/f42.bin, 100 to a folder six levels down
  };
  static std::optional<Shape> ShapeOf(std::string_view name);  ///< "flat", "imagenet", "deep".

  SyntheticBucket(Shape shape, std::uint64_t keys) : shape_(shape), keys_(keys) {}

  std::uint64_t keys() const { return keys_; }
  std::string KeyAt(std::uint64_t i) const;
  std::uint64_t SizeAt(std::uint64_t i) const;
  std::string EtagAt(std::uint64_t i) const;  ///< Every other one is of a multipart upload.

  /// The answer to a LIST of whatever bucket; nothing for another request.
  std::optional<S3Answer> Answer(const S3RequestSeen& request) const;

 private:
  /// How many keys are not behind `key`.
  std::uint64_t UpTo(std::string_view key) const;
  void AppendKey(std::uint64_t i, std::string& out) const;
  void AppendObject(std::uint64_t i, std::string& out) const;

  const Shape shape_;
  const std::uint64_t keys_;
};

}  // namespace forebay::fakes
