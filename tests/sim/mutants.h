#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace forebay::sim {

/// A rule that is broken on purpose, where the simulation holds the programs' parts together: so
/// that it is known to notice.
enum class Mutant : std::uint8_t {
  kNone,
  kWrongBytes,      ///< S3 sends a bit that is wrong.
  kRefusals,        ///< S3 refuses everything.
  kAsksNobody,      ///< Nodes ask S3 before they ask each other.
  kForgetsOwners,   ///< Ring tables do not remember former owners.
  kOldRing,         ///< Nodes keep the ring that they began with.
  kHiddenEpochs,    ///< Answers do not tell mounts that there is a newer ring.
  kLatePassOver,    ///< Mounts wait for a silent node for half a minute.
  kWaiterEndsFill,  ///< A reader that gives up ends the GETs that run.
  kForgetsBlocks,   ///< Nodes lose what they have while all is well.
  kKeepsReaders,    ///< A node sends no reader on, however many wait for a block.
  kBlindToZones,    ///< Mounts do not know where they are.
  kDeafForever,     ///< Nothing that was cut heals.
  kBelievesAll,     ///< Nodes follow a coordinator that was started from an old copy.
  kEmptyMount,      ///< A mount that restarts has lost its state directory.
  kUndead,          ///< The coordinator that is to be gone answers all the same.
  kSaysItHas,       ///< A node says that it has what it is asked about, and has it not.
  kStandsAlone,     ///< A node that S3 does not serve waits for S3.
};
inline constexpr std::size_t kMutants = 17;  // without kNone

struct MutantRow {
  Mutant mutant;
  std::string_view name;
  std::string_view story;   ///< That shows it.
  std::string_view caught;  ///< Words of the promise that is broken then.
};
inline constexpr std::array<MutantRow, kMutants> kMutantTable = {{
    {Mutant::kWrongBytes, "wrong bytes", "calm", "had wrong bytes"},
    {Mutant::kRefusals, "refusals", "calm", "reads failed"},
    {Mutant::kAsksNobody, "asks nobody", "leaving", "asked S3 for a block that"},
    {Mutant::kForgetsOwners, "forgets owners", "leaving", "which owned it before"},
    {Mutant::kOldRing, "old ring", "leaving", "goes by ring"},
    {Mutant::kHiddenEpochs, "hidden epochs", "leaving", "a mount goes by ring"},
    {Mutant::kLatePassOver, "late pass-over", "lost", "a read took"},
    {Mutant::kWaiterEndsFill, "waiter ends fill", "impatient", "GETs, not"},
    {Mutant::kForgetsBlocks, "forgets blocks", "calm", "all was cached and well"},
    {Mutant::kKeepsReaders, "keeps readers", "herd", "answered a thousand readers alone"},
    {Mutant::kBlindToZones, "blind to zones", "zones", "another zone"},
    {Mutant::kDeafForever, "deaf forever", "cut off", "goes by ring"},
    {Mutant::kBelievesAll, "believes all", "week", "old copy"},
    {Mutant::kEmptyMount, "empty mount", "week", "did not come back"},
    {Mutant::kUndead, "undead", "week", "without a coordinator"},
    {Mutant::kSaysItHas, "says it has", "chaos", "the last copy"},
    {Mutant::kStandsAlone, "stands alone", "unserved", "has not ended"},
}};

}  // namespace forebay::sim
