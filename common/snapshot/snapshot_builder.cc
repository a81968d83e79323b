#include "common/snapshot/snapshot_builder.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/snapshot/file_writer.h"
#include "common/snapshot/listing.h"
#include "common/snapshot/name_groups.h"
#include "common/snapshot/nodeids.h"
#include "common/snapshot/snapshot_extras_writer.h"
#include "common/snapshot/snapshot_format.h"
#include "common/snapshot/tree.h"

namespace forebay {
namespace {

constexpr std::uint64_t kMaxOffset32 = std::numeric_limits<std::uint32_t>::max();

struct NameTable {
  std::vector<std::uint8_t> tags;
  std::vector<std::uint32_t> slots;
};

// Everything that goes into the file, in memory, but for the rows, which are written one by one.
struct Content {
  SnapshotTree tree;
  Nodeids nodeids;
  std::vector<SnapshotDirectoryRecord> directories;
  std::string source;
  std::string paths;
  std::vector<std::uint32_t> groups;
  std::string names;
  NameTable name_table;
  std::string etags;
  std::vector<HiddenKey> hidden;
  std::uint64_t hidden_bytes = 0;  // of their section
};

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Status MakeDirectories(Content& content) {
  for (const auto& directory : content.tree.directories) {
    content.directories.push_back({.path_offset = static_cast<std::uint32_t>(content.paths.size()),
                                   .path_bytes = static_cast<std::uint16_t>(directory.path.size()),
                                   .zero = 0,
                                   .parent = directory.parent,
                                   .row = directory.row,
                                   .first_row = directory.first_row,
                                   .row_count = directory.row_count,
                                   .end = directory.end});
    content.paths.append(directory.path);
    if (content.paths.size() > kMaxOffset32) {
      return Fail(Code::kInvalid, "the directories' paths take more than 4 GiB: link parts of it");
    }
  }
  return {};
}

Status MakeNames(const Listing& listing, Content& content) {
  const auto rows = static_cast<std::uint32_t>(content.tree.rows.size());
  std::array<std::string_view, kNameGroupRows> group;
  for (std::uint32_t first = 0; first < rows; first += kNameGroupRows) {
    const std::uint32_t count = std::min(kNameGroupRows, rows - first);
    for (std::uint32_t i = 0; i < count; ++i) {
      group[i] = content.tree.NameOf(listing, first + i);
      listing.Passed(first + i);
    }
    if (content.names.size() > kMaxOffset32) {
      return Fail(Code::kInvalid, "the names take more than 4 GiB: link parts of it");
    }
    content.groups.push_back(static_cast<std::uint32_t>(content.names.size()));
    AppendNameGroup(std::span(group).first(count), content.names);
  }
  return {};
}

void MakeNameTable(const Listing& listing, Content& content) {
  const std::uint64_t slots = SnapshotSlots(content.tree.rows.size());
  NameTable& table = content.name_table;
  table.tags.resize(slots, 0);
  table.slots.resize(slots, 0);
  for (std::uint32_t d = 0; d < content.tree.directories.size(); ++d) {
    const auto& directory = content.tree.directories[d];
    for (std::uint32_t i = 0; i < directory.row_count; ++i) {
      const std::uint32_t row = directory.first_row + i;
      listing.Passed(row);
      const std::uint64_t hash = SnapshotNameHash(d, content.tree.NameOf(listing, row));
      std::uint64_t slot = SnapshotFirstSlot(hash, slots);
      while (table.tags[slot] != 0) slot = slot + 1 == slots ? 0 : slot + 1;
      table.tags[slot] = SnapshotNameTag(hash);
      table.slots[slot] = row;
    }
  }
}

// In row order, so that the file does not depend on the order of the listing.
void MakeEtags(const Listing& listing, Content& content) {
  for (std::size_t i = 0; i < content.tree.rows.size(); ++i) {
    const SnapshotTree::Row row = content.tree.rows[i];
    listing.Passed(i);
    if (row.directory != 0) continue;
    const ListedEntry& entry = listing.entries()[row.number];
    if (entry.attributes.opaque_etag()) content.etags.append(listing.OpaqueEtagOf(entry));
  }
}

void MakeHidden(Listing& listing, SnapshotHeader& header, Content& content) {
  content.hidden = listing.TakeHidden();
  for (const HiddenKey& hidden : content.hidden) {
    content.hidden_bytes += 1 + sizeof(std::uint16_t) + hidden.key.size();
    ++header.hidden_by_reason[static_cast<std::size_t>(hidden.reason)];
  }
}

std::array<std::uint64_t, kSnapshotSections> SectionSizes(const Content& content) {
  return {content.source.size(),
          content.directories.size() * sizeof(SnapshotDirectoryRecord),
          content.paths.size(),
          content.groups.size() * sizeof(std::uint32_t),
          content.names.size(),
          content.tree.rows.size() * sizeof(SnapshotRowRecord),
          content.name_table.tags.size(),
          content.name_table.slots.size() * sizeof(std::uint32_t),
          content.nodeids.slots.size() * sizeof(std::uint32_t),
          content.etags.size(),
          content.hidden_bytes,
          0};
}

Status PlaceSections(const Content& content, SnapshotExtrasWriter& extras, SnapshotHeader& header) {
  const auto sizes = SectionSizes(content);
  std::uint64_t offset = sizeof header;
  for (std::size_t i = 0; i < kSnapshotSections; ++i) {
    offset = (offset + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
    header.sections[i] = {.offset = offset, .bytes = sizes[i]};
    offset += sizes[i];
    if (static_cast<SnapshotSection>(i) == SnapshotSection::kHidden) offset = extras.Place(offset);
  }
  auto& cells = header.sections[static_cast<std::size_t>(SnapshotSection::kCells)];
  cells.bytes = (cells.offset + kCellBytes - 1) / kCellBytes * sizeof(std::uint64_t);
  header.file_bytes = cells.offset + cells.bytes;
  if (extras.empty()) return {};
  const Result<std::uint32_t> place = extras.PlaceInHeader();
  if (!place) return Fail(place.error());
  header.format = kSnapshotFormatWithExtras;
  header.extras_place = *place;
  return {};
}

void WriteRows(const Listing& listing, const Content& content, SnapshotFileWriter& file) {
  std::uint64_t etag_offset = 0;
  for (std::size_t i = 0; i < content.tree.rows.size(); ++i) {
    const SnapshotTree::Row row = content.tree.rows[i];
    SnapshotRowRecord record{};
    record.nodeid = content.nodeids.by_row[i];
    if (row.directory != 0) {
      record.packed = row.number | SnapshotAttributes::kDirectoryBit;
      record.mtime_unix_s = content.tree.directories[row.number].mtime_unix_s;
    } else {
      const ListedEntry& entry = listing.entries()[row.number];
      record.packed = entry.attributes.packed;
      record.mtime_unix_s = entry.mtime_unix_s;
      record.etag = entry.etag;
      if (entry.attributes.opaque_etag()) {
        const SnapshotOpaqueEtag opaque{
            .offset = etag_offset, .bytes = entry.opaque_bytes, .zero = {}};
        etag_offset += opaque.bytes;
        record.etag = std::bit_cast<std::array<std::uint8_t, 16>>(opaque);
      }
    }
    file.Append(&record, sizeof record);
    listing.Passed(i);
  }
}

void WriteHidden(const Content& content, SnapshotFileWriter& file) {
  for (const HiddenKey& hidden : content.hidden) {
    const auto reason = static_cast<char>(hidden.reason);
    const auto bytes = static_cast<std::uint16_t>(hidden.key.size());
    file.Append(&reason, sizeof reason);
    file.Append(&bytes, sizeof bytes);
    file.Append(hidden.key);
  }
}

void WriteFile(const Listing& listing, const Content& content, const SnapshotExtrasWriter& extras,
               const SnapshotHeader& header, SnapshotFileWriter& file) {
  file.Append(&header, sizeof header);
  const auto append = [&](SnapshotSection section, std::string_view bytes) {
    file.PadTo(header.section(section).offset);
    file.Append(bytes);
  };
  append(SnapshotSection::kSource, content.source);
  append(SnapshotSection::kDirectories, BytesOf(content.directories));
  append(SnapshotSection::kPaths, content.paths);
  append(SnapshotSection::kNameGroups, BytesOf(content.groups));
  append(SnapshotSection::kNames, content.names);
  append(SnapshotSection::kRows, {});
  WriteRows(listing, content, file);
  append(SnapshotSection::kNameTags, BytesOf(content.name_table.tags));
  append(SnapshotSection::kNameSlots, BytesOf(content.name_table.slots));
  append(SnapshotSection::kNodeidSlots, BytesOf(content.nodeids.slots));
  append(SnapshotSection::kEtags, content.etags);
  append(SnapshotSection::kHidden, {});
  WriteHidden(content, file);
  extras.Write(file);
  append(SnapshotSection::kCells, {});
  file.AppendCellChecksums();
}

}  // namespace

struct SnapshotBuilder::State {
  State(SnapshotOptions o, std::string p)
      : options(std::move(o)),
        path(std::move(p)),
        listing(options.prefix, path, options.memory_bytes) {}

  Status CheckOptions() const;
  Status MakeContent(SnapshotHeader& header, Content& content);
  Status FillHeader(const Content& content, SnapshotExtrasWriter& extras,
                    SnapshotHeader& header) const;

  const SnapshotOptions options;
  const std::string path;
  Listing listing;
};

Status SnapshotBuilder::State::CheckOptions() const {
  for (const std::string* text : {&options.endpoint, &options.bucket, &options.prefix}) {
    if (text->size() > kMaxListedKeyBytes) {
      return Fail(Code::kInvalid,
                  "the link's endpoint, bucket or prefix is longer than 65,535 bytes");
    }
  }
  if (options.nodeid_bits < 1 || options.nodeid_bits > 62) {
    return Fail(Code::kInvalid,
                "nodeids have 1 to 62 bits, not " + std::to_string(options.nodeid_bits));
  }
  if (options.previous == nullptr) return {};
  const SnapshotSource same{
      .endpoint = options.endpoint, .bucket = options.bucket, .prefix = options.prefix};
  if (options.previous->id().link != options.id.link ||
      options.previous->domain() != options.domain || options.previous->source() != same) {
    return Fail(Code::kInvalid,
                "the previous generation is of another link or of another source (" +
                    options.previous->id().link.ToString() + ", not " + options.id.link.ToString() +
                    "): build without it");
  }
  return {};
}

Status SnapshotBuilder::State::MakeContent(SnapshotHeader& header, Content& content) {
  if (Status status = listing.Sort(); !status) return status;
  auto tree = BuildTree(listing);
  if (!tree) return Fail(tree.error());
  content.tree = std::move(*tree);
  // Three passes over the same rows, each of which writes what the others do not read. On one core
  // they take as long as one after the other.
  Status names;
  std::jthread naming([&] { names = MakeNames(listing, content); });
  std::jthread placing([&] { MakeNameTable(listing, content); });
  auto nodeids = AssignNodeids(options, listing, content.tree);
  naming.join();
  placing.join();
  if (!nodeids) return Fail(nodeids.error());
  if (!names) return names;
  content.nodeids = std::move(*nodeids);
  if (Status status = MakeDirectories(content); !status) return status;
  MakeEtags(listing, content);
  MakeHidden(listing, header, content);
  content.source = options.endpoint + options.bucket + options.prefix;
  return {};
}

Status SnapshotBuilder::State::FillHeader(const Content& content, SnapshotExtrasWriter& extras,
                                          SnapshotHeader& header) const {
  header.magic = kSnapshotMagic;
  header.format = kSnapshotFormat;
  header.header_bytes = sizeof header;
  header.link = options.id.link.bytes;
  header.domain = options.domain.bytes;
  header.generation = options.id.generation;
  header.block_bytes = options.block_bytes;
  header.listed_unix_s = options.listed_unix_s;
  header.source_bytes = {static_cast<std::uint32_t>(options.endpoint.size()),
                         static_cast<std::uint32_t>(options.bucket.size()),
                         static_cast<std::uint32_t>(options.prefix.size())};
  header.rows = static_cast<std::uint32_t>(content.tree.rows.size());
  header.directories = static_cast<std::uint32_t>(content.tree.directories.size());
  header.slots = static_cast<std::uint32_t>(content.nodeids.slots.size());
  for (std::size_t i = 0; i < content.tree.rows.size(); ++i) {
    const SnapshotTree::Row row = content.tree.rows[i];
    listing.Passed(i);
    if (row.directory != 0) continue;
    const std::uint64_t size = listing.entries()[row.number].attributes.size();
    header.object_bytes += size;
    if (size >= kLargeObjectBytes) header.large_bytes += size;
  }
  Status placed = PlaceSections(content, extras, header);
  header.checksum = XXH3_64bits(&header, offsetof(SnapshotHeader, checksum));
  return placed;
}

SnapshotBuilder::SnapshotBuilder(SnapshotOptions options, std::string path)
    : state_(std::make_unique<State>(std::move(options), std::move(path))) {}

SnapshotBuilder::~SnapshotBuilder() = default;

Status SnapshotBuilder::Add(const ListedKey& object) { return state_->listing.Add(object); }

void SnapshotBuilder::AddHidden(std::string_view key, HiddenReason reason) {
  state_->listing.HideKey(key, reason);
}

Result<FinishedSnapshot> SnapshotBuilder::Finish() {
  if (Status status = state_->CheckOptions(); !status) return Fail(status.error());
  SnapshotHeader header{};
  Content content;
  if (Status status = state_->MakeContent(header, content); !status) return Fail(status.error());
  SnapshotExtrasWriter extras(state_->listing, content.tree);
  if (Status status = state_->FillHeader(content, extras, header); !status)
    return Fail(status.error());
  auto file = SnapshotFileWriter::Create(state_->path);
  if (!file) return Fail(file.error());
  WriteFile(state_->listing, content, extras, header, **file);
  const auto digest = (*file)->Commit();
  if (!digest) return Fail(digest.error());
  return FinishedSnapshot{
      .totals = TotalsOf(header), .file_bytes = header.file_bytes, .digest = *digest};
}

}  // namespace forebay
