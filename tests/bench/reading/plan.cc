#include "tests/bench/reading/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <set>
#include <utility>

namespace forebay::bench {

void AddReadOptions(CLI::App& app, ReadOptions& options, const std::string& root) {
  app.add_option("LIST", options.list, "paths below ROOT, one a line")->required();
  app.add_option("ROOT", options.root, root)->required();
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_option("--seed", options.seed, "of the order");
  app.add_option("--piece-bytes", options.piece_bytes,
                 "read pieces of this size, in a random order over all files, not whole files");
  app.add_option("--share", options.share, "of the files or pieces; the others are not read")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--digests", options.digests,
                 "compare each file or piece with its XXH3 in this file");
  app.add_option("--write-digests", options.write_digests,
                 "write the XXH3 of each file or piece to this file");
}

bool LoadDigests(const std::string& file, Digests& digests) {
  std::ifstream input(file);
  std::string digest;
  std::string path;
  while (input >> digest && input.ignore() && std::getline(input, path)) {
    digests[path] = std::stoull(digest, nullptr, 16);
  }
  return input.eof() && !digests.empty();
}

bool SaveDigests(const std::string& file, const Digests& digests) {
  std::ofstream output(file);
  for (const auto& [path, digest] : digests) {
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, digest);
    output << text << ' ' << path << '\n';
  }
  output.close();
  return output.good();
}

bool LoadPaths(const std::string& list, std::vector<std::string>& paths) {
  std::ifstream input(list);
  for (std::string path; std::getline(input, path);) paths.push_back(path);
  return input.eof() && !paths.empty();
}

std::optional<std::vector<Piece>> CutPieces(
    const ReadOptions& options, const std::vector<std::string>& paths,
    const std::function<std::optional<std::uint64_t>(const std::string&)>& size_of) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (options.piece_bytes == 0) {
      pieces.push_back({.path = i});
      continue;
    }
    const std::optional<std::uint64_t> size = size_of(paths[i]);
    if (!size) return std::nullopt;
    for (std::uint64_t offset = 0; offset < *size; offset += options.piece_bytes) {
      pieces.push_back({i, offset, std::min(options.piece_bytes, *size - offset)});
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), std::mt19937_64(options.seed));
  const double kept = std::ceil(options.share * static_cast<double>(pieces.size()));
  pieces.resize(static_cast<std::size_t>(kept));
  return pieces;
}

std::size_t BlocksOf(const std::vector<Piece>& pieces) {
  std::set<std::pair<std::size_t, std::uint64_t>> blocks;
  for (const Piece& piece : pieces) {
    if (piece.length == 0) return 0;
    const std::uint64_t last = (piece.offset + piece.length - 1) / kBlockBytes;
    for (std::uint64_t i = piece.offset / kBlockBytes; i <= last; ++i) {
      blocks.emplace(piece.path, i);
    }
  }
  return blocks.size();
}

}  // namespace forebay::bench
