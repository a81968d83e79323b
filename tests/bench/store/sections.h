#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

// The sections of store_bench. Each answers what it measured; `folder` is empty and stays so.
namespace forebay::store_bench {

struct RatesOptions {
  std::string folder;
  std::uint32_t length = 40'000;  ///< Of an object.
  std::uint64_t objects = 4'000;
  unsigned rounds = 5;
  unsigned threads = 2;
};

/// Admitting and reading beside one file for each object and beside one file for all, by turns.
boost::json::value Rates(const RatesOptions& options);

/// CPU time of the checksums of so many objects, without a store.
boost::json::value Checksums(std::uint32_t length, std::uint64_t objects);

/// What one object takes: `objects` of them in a store of their own, each in blocks of 4 MiB.
boost::json::value Space(const std::string& folder, std::uint64_t object_bytes,
                         std::uint64_t objects);

/// A cache that is half as large as what goes through it: what is written for each byte admitted,
/// and whether what left was given back.
boost::json::value Churn(const std::string& folder, std::uint32_t length, std::uint64_t bytes);

/// The index and the history of reads with so many blocks, without a store.
boost::json::value Memory(std::uint64_t blocks, unsigned jobs);

/// Opening a store of so many small blocks, by its index and without it.
boost::json::value Recovery(const std::string& folder, std::uint64_t blocks);

}  // namespace forebay::store_bench
