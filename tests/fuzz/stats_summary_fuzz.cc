// SPDX-License-Identifier: Apache-2.0
// Any text as the output of kubelet's /stats/summary: rejected with a message, or entries with an
// identity each.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "intake/stats_summary.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void run(std::string_view input) {
  const auto summary = intake::parse_stats_summary(input);
  if (!summary.ok()) {
    require(!summary.error().text().empty());
    return;
  }
  std::set<std::string> uids;
  for (const intake::PodStatsEntry& each : summary->pods) {
    require(uids.insert(each.uid).second && !each.uid.empty());
  }
  require(summary->filesystems.layout == intake::layout_of(summary->filesystems));
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
