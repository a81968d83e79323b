#include "tests/fuzz/fuzz_targets.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace forebay {
namespace {

constexpr std::array<FuzzTarget, 12> kTargets = {{
    {"wire", &RunWireInput, &WireSeeds},
    {"record_header", &RunRecordHeaderInput, &RecordHeaderSeeds},
    {"index_row", &RunIndexRowInput, &IndexRowSeeds},
    {"segment", &RunSegmentInput, &SegmentSeeds},
    {"list", &RunListInput, &ListSeeds},
    {"versions", &RunVersionsInput, &VersionsSeeds},
    {"head", &RunHeadInput, &HeadSeeds},
    {"aws_files", &RunAwsFilesInput, &AwsFilesSeeds},
    {"manifest", &RunManifestInput, &ManifestSeeds},
    {"snapshot", &RunSnapshotInput, &SnapshotSeeds},
    {"delta", &RunDeltaInput, &DeltaSeeds},
    {"ring", &RunRingInput, &RingSeeds},
}};

}  // namespace

std::span<const FuzzTarget> FuzzTargets() { return kTargets; }

const FuzzTarget* FindFuzzTarget(std::string_view name) {
  const auto* const found = std::ranges::find(kTargets, name, &FuzzTarget::name);
  return found == kTargets.end() ? nullptr : found;
}

void Require(bool rule) {
  if (!rule) std::abort();
}

}  // namespace forebay
