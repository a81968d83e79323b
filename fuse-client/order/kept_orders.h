#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/keeper.h"

namespace forebay {

/// What a job has announced to an earlier process of a mount.
struct KeptOrder {
  std::string job;
  std::size_t position = 0;
  std::vector<std::uint64_t> nodeids;
};

/// Behind the mount's own key (ConnectionKey).
inline constexpr std::string_view kOrderKeys = "order/";

/// A successor finds it. One that cannot be kept is lost with this process, and said.
void KeepOrder(const Keeper& keeper, std::uint32_t connection, const std::string& job,
               const std::vector<std::uint64_t>& nodeids);
void KeepOrderPosition(const Keeper& keeper, std::uint32_t connection, const std::string& job,
                       std::size_t position);
void DropOrder(const Keeper& keeper, std::uint32_t connection, const std::string& job);

/// Takes the entry `name`, which begins with kOrderKeys; entries come in the order of their names.
void TakeKeptOrder(std::string_view name, const Kept& kept, std::vector<KeptOrder>& orders);

}  // namespace forebay
