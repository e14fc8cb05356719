// SPDX-License-Identifier: Apache-2.0
#include "sources/node_pages.h"

#include <fcntl.h>

#include <cstdint>
#include <limits>
#include <optional>

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
