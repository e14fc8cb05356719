// SPDX-License-Identifier: Apache-2.0
#include "sources/cgroup_reader.h"

#include <algorithm>

#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

using kernel::CgroupVersion;
using kernel::HeldFile;

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string file_name(const std::string& path, const char* file) {
  return path == "/" ? path + file : path + "/" + file;
}

// memory.max of the group and each ancestor that has one (the host's root has none).
Result<std::vector<HeldFile>> open_limits(const kernel::CgroupTree& tree, std::string path) {
  std::vector<HeldFile> files;
  for (;;) {
    const auto cgroup = TRY(tree.open(path));
    auto file = HeldFile::open(cgroup.fd(), "memory.max", file_name(path, "memory.max"));
    if (file) {
      files.push_back(std::move(file).value());
    } else if (file.error().code != ENOENT) {
      return file.error();
    }
    if (path == "/") return files;
    path = parent_of(path);
  }
}

std::optional<Bytes> smaller(const std::optional<Bytes>& a, const std::optional<Bytes>& b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

constexpr CgroupReader::CgroupReadings kRemoved{
    .removed = true, .usage = {}, .inactive_file = {}, .limit = {}};

// Smallest of the held limits; unknown if one cannot be read, because it could be the smallest.
Result<std::optional<Bytes>> read_limits(const std::vector<HeldFile>& files, std::string& buffer) {
  std::optional<Bytes> limit;
  for (const auto& file : files) {
    const auto amount = kernel::parse_amount(TRY(file.read(buffer)));
    if (!amount) return amount.error().in(file.name());
    limit = smaller(limit, *amount);
  }
  return limit;
}

void note_failure(CgroupReader::CgroupReadings& reading, const HeldFile& file, const Error& failure,
                  std::vector<SourceNote>& notes) {
  reading.removed = reading.removed || failure.code == ENODEV;
  if (!reading.removed) notes.push_back({file.name(), failure.text()});
}

}  // namespace

Result<CgroupReader> CgroupReader::open(const kernel::CgroupTree& tree, std::string_view path) {
  auto cgroup = TRY(tree.open(path));
  const bool v1 = tree.version() == CgroupVersion::v1;
  const char* usage_file = v1 ? "memory.usage_in_bytes" : "memory.current";
  auto usage = TRY(HeldFile::open(cgroup.fd(), usage_file, file_name(cgroup.path(), usage_file)));
  auto stat =
      TRY(HeldFile::open(cgroup.fd(), "memory.stat", file_name(cgroup.path(), "memory.stat")));
  return CgroupReader(std::move(cgroup), std::move(usage), std::move(stat));
}

Result<CgroupReader> CgroupReader::open_with_limit(const kernel::CgroupTree& tree,
                                                   std::string_view path) {
  auto reader = TRY(open(tree, path));
  if (tree.version() == CgroupVersion::v1) {
    reader.limit_in_stat_ = true;
  } else {
    reader.limits_ = TRY(open_limits(tree, std::string(path)));
  }
  return reader;
}

CgroupReader::CgroupReadings CgroupReader::read_usage(std::string& buffer,
                                                      std::vector<SourceNote>& notes) const {
  CgroupReadings reading;
  if (const auto text = usage_->read(buffer); !text) {
    note_failure(reading, *usage_, text.error(), notes);
  } else if (const auto usage = kernel::parse_amount(*text); !usage) {
    note_failure(reading, *usage_, usage.error(), notes);
  } else {
    reading.usage = *usage;
  }
  return reading;
}

void CgroupReader::read_limit(CgroupReadings& reading, std::string& buffer,
                              std::vector<SourceNote>& notes) const {
  if (limits_.empty()) return;
  const auto limit = read_limits(limits_, buffer);
  if (limit) reading.limit = *limit;
  if (!limit) note_failure(reading, limits_.front(), limit.error(), notes);
}

CgroupReader::CgroupReadings CgroupReader::read(std::string& buffer,
                                                std::vector<SourceNote>& notes) const {
  CgroupReadings reading = read_usage(buffer, notes);
  if (const auto text = stat_.read(buffer); !text) {
    note_failure(reading, stat_, text.error(), notes);
  } else if (const auto stat = kernel::parse_memory_stat(*text); !stat) {
    note_failure(reading, stat_, stat.error(), notes);
  } else {
    reading.inactive_file = stat->inactive_file;
    if (limit_in_stat_ && stat->hierarchical_limit && *stat->hierarchical_limit < kNoLimitOfV1) {
      reading.limit = stat->hierarchical_limit;
    }
  }
  read_limit(reading, buffer, notes);
  return reading.removed ? kRemoved : reading;
}

CgroupReader::CgroupReadings CgroupReader::read_passed(Bytes usage, Bytes inactive_file,
                                                       std::string& buffer,
                                                       std::vector<SourceNote>& notes) const {
  if (limit_in_stat_) return read(buffer, notes);
  CgroupReadings reading{
      .removed = false, .usage = usage, .inactive_file = inactive_file, .limit = {}};
  read_limit(reading, buffer, notes);
  return reading.removed ? kRemoved : reading;
}

}  // namespace forestall::sources
