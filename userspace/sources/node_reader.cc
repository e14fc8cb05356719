// SPDX-License-Identifier: Apache-2.0
#include "sources/node_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

using kernel::HeldFile;

// Reads and parses one held file. On failure adds a note and returns nothing.
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

Result<NodeUsage> parse_node_usage(std::string_view vmstat, std::int64_t page_size) {
  const auto pages = TRY(kernel::parse_vmstat(vmstat));
  if (!pages.nr_anon_pages || !pages.nr_file_pages || !pages.nr_inactive_file) {
    return error("nr_anon_pages, nr_file_pages or nr_inactive_file is missing");
  }
  const auto bytes = [&](std::uint64_t count) {
    return Bytes{static_cast<std::int64_t>(count) * page_size};
  };
  return NodeUsage{bytes(*pages.nr_anon_pages + *pages.nr_file_pages),
                   bytes(*pages.nr_inactive_file)};
}

Result<NodeReader> NodeReader::open(const kernel::CgroupTree& tree, const std::string& proc) {
  const auto meminfo_path = proc + "/meminfo";
  auto meminfo = TRY(HeldFile::open(AT_FDCWD, meminfo_path.c_str(), meminfo_path));
  if (tree.version() == kernel::CgroupVersion::v2) {
    const auto vmstat_path = proc + "/vmstat";
    auto vmstat = TRY(HeldFile::open(AT_FDCWD, vmstat_path.c_str(), vmstat_path));
    return NodeReader(std::move(meminfo), std::move(vmstat), std::nullopt);
  }
  auto stat = TRY(HeldFile::open(tree.memory_fd(), "memory.stat", "/memory.stat"));
  auto usage =
      TRY(HeldFile::open(tree.memory_fd(), "memory.usage_in_bytes", "/memory.usage_in_bytes"));
  return NodeReader(std::move(meminfo), std::move(stat), std::move(usage));
}

NodeSample NodeReader::read(std::string& buffer, std::vector<SourceNote>& notes) const {
  NodeSample sample;
  if (const auto meminfo = read_parsed(meminfo_, buffer, notes, kernel::parse_meminfo)) {
    sample.capacity = meminfo->total;
    sample.kernel_available = meminfo->available;
    sample.swap_total = meminfo->swap_total;
    sample.swap_free = meminfo->swap_free;
  }
  if (usage_) {
    const auto stat = read_parsed(stat_, buffer, notes, kernel::parse_memory_stat);
    if (stat) sample.inactive_file = stat->inactive_file;
    const auto usage = read_parsed(*usage_, buffer, notes, kernel::parse_amount);
    if (usage) sample.usage = *usage;
    return sample;
  }
  const auto node = read_parsed(stat_, buffer, notes, [](std::string_view text) {
    return parse_node_usage(text, ::sysconf(_SC_PAGESIZE));
  });
  if (node) {
    sample.usage = node->usage;
    sample.inactive_file = node->inactive_file;
  }
  return sample;
}

}  // namespace forestall::sources
