// SPDX-License-Identifier: Apache-2.0
// Texts of /proc about one process and about the node's zones: no amount is negative, and every
// name is terminated.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sources/node_pages.h"
#include "sources/process_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace forestall::sources;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto status = parse_status_text(text, 4096); status && status->memory) {
    const auto& memory = *status->memory;
    for (const auto pages :
         {memory.file, memory.anon, memory.shmem, memory.swap, memory.page_tables}) {
      if (pages < 0) std::abort();
    }
  }
  if (const auto stat = parse_stat_text(text); stat && stat->comm.back() != '\0') std::abort();
  if (const auto pages = present_pages(text, forestall::kAllNodes); pages && *pages < 0) {
    std::abort();
  }
  (void)parse_mask(text);
  (void)parse_node_list(text);
  return 0;
}
