// SPDX-License-Identifier: Apache-2.0
#include "sources/node_pages.h"

#include <fcntl.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "sources/process_text.h"

namespace forestall::sources {
namespace {

// Bit of the node in a line "Node 0, zone   Normal"; 0 for nodes from 64 on.
std::optional<NodeMask> parse_node_line(std::string_view line) {
  if (next_word(line) != "Node") return std::nullopt;
  auto word = next_word(line);
  const auto node = parse_u64(next_field(word, ','));
  if (!node) return std::nullopt;
  return *node < 64 ? NodeMask{1} << *node : NodeMask{0};
}

}  // namespace

Result<Pages> present_pages(std::string_view zoneinfo, NodeMask nodes) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<Pages>::max());
  std::uint64_t sum = 0;
  std::optional<NodeMask> current;
  while (!zoneinfo.empty()) {
    auto line = next_field(zoneinfo, '\n');
    if (const auto node = parse_node_line(line)) current = node;
    if (next_word(line) != "present") continue;
    const auto present = parse_u64(next_word(line));
    if (!present || !current || *present > kMax - sum) {
      return error("zoneinfo: \"present\" is not what the kernel prints");
    }
    if ((*current & nodes) != 0) sum += *present;
  }
  if (!current) return error("zoneinfo: no node");
  return static_cast<Pages>(sum);
}

// "managed" is the last of a zone's numbers that count here.
Result<ZoneSums> zone_sums(std::string_view zoneinfo) {
  // No sum of a machine's pages reaches this, and no sum of two below it overflows.
  constexpr std::uint64_t kMax = std::uint64_t{1} << 52;
  std::uint64_t managed_sum = 0;
  std::uint64_t low_sum = 0;
  std::uint64_t low = 0;
  bool has_low = false;
  while (!zoneinfo.empty()) {
    auto line = next_field(zoneinfo, '\n');
    const auto name = next_word(line);
    if (name != "low" && name != "managed") continue;
    const auto pages = parse_u64(next_word(line));
    if (!pages || *pages > kMax) return error("zoneinfo: not what the kernel prints");
    if (name == "low") {
      low = *pages;
      has_low = true;
      continue;
    }
    if (!std::exchange(has_low, false)) return error("zoneinfo: a zone has no low watermark");
    if (*pages > 0) {
      managed_sum += *pages;
      low_sum += low;
    }
    if (managed_sum > kMax || low_sum > kMax) return error("zoneinfo: not what the kernel prints");
  }
  if (managed_sum == 0) return error("zoneinfo: no zone has memory");
  return ZoneSums{static_cast<Pages>(low_sum), static_cast<Pages>(managed_sum)};
}

Result<NodeMask> read_nodes_with_memory(const std::string& sys) {
  const auto path = sys + "/node/has_memory";
  const auto file = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  std::string buffer;
  const auto text = TRY(file.read(buffer));
  const auto nodes = parse_node_list(text);
  if (!nodes) return error(path + ": not a list of nodes");
  return *nodes;
}

}  // namespace forestall::sources
