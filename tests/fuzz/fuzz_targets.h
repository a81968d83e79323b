#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

// What is fuzzed: everything that reads bytes which somebody else wrote, or a disk gave back.
namespace forebay {

using Seeds = std::map<std::string, std::string>;  ///< First inputs, by name.

struct FuzzTarget {
  std::string_view name;
  /// Feeds one input to the code. Aborts when a rule is broken; the sanitizers see the rest.
  void (*run)(std::string_view input);
  Seeds (*seeds)();
};

std::span<const FuzzTarget> FuzzTargets();
/// Null when there is none of this name.
const FuzzTarget* FindFuzzTarget(std::string_view name);

/// Ends the program when a rule does not hold.
void Require(bool rule);

// wire_input.cc. The first byte chooses:
//   0, 1   what comes over a connection at a server, at a client
//   2, 3   the same, but the checksum of each frame is made right first, and a message that the
//          input ends in goes on with zeros
//   n > 3  the bytes of a message: the (n - 4)th of all messages, modulo their number
void RunWireInput(std::string_view input);
Seeds WireSeeds();

// record_input.cc. The first byte says what is made right before a header is read (bit 0: magic,
// format and lengths; bit 1: the checksum); the header follows.
void RunRecordHeaderInput(std::string_view input);
Seeds RecordHeaderSeeds();

// index_input.cc. The length of a key (1 byte), the key, and the value behind it.
void RunIndexRowInput(std::string_view input);
Seeds IndexRowSeeds();

// segment_input.cc. A segment in pieces, each at the next multiple of 4,096: flags (1 byte; bit 0:
// a hole before it, of as many pages as the upper four bits say; bit 1: the header is made right
// for this place; bit 2: so are its cells' checksums; bit 3: but it says another position, segment,
// link or cluster, as bits 4 and 5 choose; bit 7 without bit 0: in its data, where a record may
// begin, stands one), length (u16, little endian), bytes.
void RunSegmentInput(std::string_view input);
Seeds SegmentSeeds();

// list_input.cc. The first byte is what was asked for (bit 0: a prefix; bit 1: a delimiter; bit 2:
// a page behind the first; bit 3: two keys at most); the answer of S3 follows.
void RunListInput(std::string_view input);
Seeds ListSeeds();

// list_input.cc. The first byte is what was asked for (bit 0: the key "p/a" in place of "k"; bit 1:
// a page behind the first); the answer of S3 follows.
void RunVersionsInput(std::string_view input);
Seeds VersionsSeeds();

// head_input.cc. The first byte says what was asked for (bit 0: the whole object) and answered (bit
// 1: 206 in place of 200); the lines of the answer's head follow.
void RunHeadInput(std::string_view input);
Seeds HeadSeeds();

// aws_files_input.cc. The length of the credentials file (1 byte), that file, and the config file.
void RunAwsFilesInput(std::string_view input);
Seeds AwsFilesSeeds();

// manifest_input.cc. The first byte says what bounds the link (bit 0: a prefix is given; bit 1:
// names stand behind it); the manifest follows.
void RunManifestInput(std::string_view input);
Seeds ManifestSeeds();

// snapshot_input.cc. The first byte says whether the header's magic, format, lengths and checksum
// are made right (bit 0); the file follows.
void RunSnapshotInput(std::string_view input);
Seeds SnapshotSeeds();

// delta_input.cc. The first byte says whether the header's lengths, ends and checksums are made
// right (bit 0); the difference follows.
void RunDeltaInput(std::string_view input);
Seeds DeltaSeeds();

// ring_input.cc. The first byte says what follows: a table, or (bit 0) the pieces of one that is
// alike in all partitions, each behind its length (u16, little endian): all before the owners, the
// owners of a partition, the departures, and what a partition remembers of them.
void RunRingInput(std::string_view input);
Seeds RingSeeds();

}  // namespace forebay
