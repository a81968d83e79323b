#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/console.h"
#include "common/model/block_loss.h"
#include "proto/coordinator.pb.h"

namespace forebay {

// The blocks of `explain PATH`.

bool IsCached(const proto::ExplainedBlock& block);
/// The node that readers ask first has it.
bool IsAtOwner(const proto::ExplainedBlock& block);

/// "3 min ago".
std::string Ago(std::int64_t then_unix_s, std::int64_t now_unix_s);
/// "a, b"; `none` when there are none.
std::string Listed(const std::vector<std::string>& names, const std::string& none);

/// What happened to a block somewhere, last.
struct LastEvent {
  const proto::ExplainedBlock* block = nullptr;  ///< Null: nothing that anybody remembers.
  const proto::BlockAtNode* node = nullptr;
};
LastEvent LastRead(const proto::ExplainReply& file);
/// Of the blocks that are not cached.
LastEvent LastLoss(const proto::ExplainReply& file);
/// "evicted: other blocks needed its place".
std::string LossText(BlockLoss loss);
/// As it is in JSON.
std::string LossName(BlockLoss loss);
BlockLoss LossOf(const proto::BlockAtNode& node);

/// From when on nothing that happened to the blocks is unknown; 0 = some of them nobody remembers.
std::int64_t RememberedSince(const proto::ExplainReply& file);

/// A table with a line for each run of blocks of which the same is to be said; the first lines
/// only, unless the console is wide.
void PrintBlockLines(const Console& console, const proto::ExplainReply& file,
                     std::int64_t now_unix_s);

}  // namespace forebay
