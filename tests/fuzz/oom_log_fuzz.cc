// SPDX-License-Identifier: Apache-2.0
// The kernel's log, a record per line: for any content, a kill has a pid, a terminated name, times
// that do not wrap, and paths that are absolute or absent.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "sources/oom_log_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace forestall;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  sources::OomLogText log(4096);
  std::vector<OomKillEvent> kills;
  while (!text.empty()) {
    const auto record = sources::parse_kernel_log_record(next_field(text, '\n'));
    if (record) log.take(*record, (size & 1) != 0, kills);
  }
  for (const auto& kill : kills) {
    if (kill.victim.pid <= 0) std::abort();
    if (kill.comm.back() != '\0' || kill.killer_comm.back() != '\0') std::abort();
    if (to_ns(kill.at) < 0) std::abort();
    for (const auto& path : {kill.path, kill.domain_path}) {
      if (!path.empty() && !path.starts_with('/')) std::abort();
    }
    if (kill.memory && kill.memory->total() < 0) std::abort();
  }
  return 0;
}
