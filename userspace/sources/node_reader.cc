// SPDX-License-Identifier: Apache-2.0
#include "sources/node_reader.h"

#include <fcntl.h>

#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

using kernel::HeldFile;

// Reads and parses one held file; a failure becomes a note and nothing.
template <typename Parse>
auto read_parsed(const HeldFile& file, std::string& buffer, std::vector<SourceNote>& notes,
                 Parse parse) -> decltype(parse(std::string_view()).optional()) {
  const auto text = file.read(buffer);
  if (!text) {
    notes.push_back({file.name(), text.error().text()});
    return std::nullopt;
  }
  auto parsed = parse(*text);
  if (!parsed) notes.push_back({file.name(), parsed.error().text()});
  return parsed.optional();
}

}  // namespace

Result<NodeReader> NodeReader::open(const kernel::CgroupTree& tree, const std::string& proc) {
  const auto meminfo_path = proc + "/meminfo";
  auto meminfo = TRY(HeldFile::open(AT_FDCWD, meminfo_path.c_str(), meminfo_path));
  auto stat = TRY(HeldFile::open(tree.memory_fd(), "memory.stat", "/memory.stat"));
  NodeReader reader(std::move(meminfo), std::move(stat));
  if (tree.version() == kernel::CgroupVersion::v1) {
    reader.usage_ =
        TRY(HeldFile::open(tree.memory_fd(), "memory.usage_in_bytes", "/memory.usage_in_bytes"));
  }
  return reader;
}

NodeSample NodeReader::read(std::string& buffer, std::vector<SourceNote>& notes) const {
  NodeSample sample;
  if (const auto meminfo = read_parsed(meminfo_, buffer, notes, kernel::parse_meminfo)) {
    sample.capacity = meminfo->total;
    sample.kernel_available = meminfo->available;
    sample.swap_total = meminfo->swap_total;
    sample.swap_free = meminfo->swap_free;
  }
  const auto stat = read_parsed(stat_, buffer, notes, kernel::parse_memory_stat);
  if (stat) sample.inactive_file = stat->inactive_file;
  if (usage_) {
    const auto usage = read_parsed(*usage_, buffer, notes, kernel::parse_amount);
    if (usage) sample.usage = *usage;
  } else if (stat && stat->anon && stat->file) {
    sample.usage = *stat->anon + *stat->file;
  }
  return sample;
}

}  // namespace forestall::sources
