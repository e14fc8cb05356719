// SPDX-License-Identifier: Apache-2.0
// No text crashes a parser of kernel/memory_files.h, and every accepted value is in the range of
// its type.
#include <cstdint>
#include <string_view>

#include "kernel/amount_setting.h"
#include "kernel/memory_files.h"
#include "require.h"

namespace {

using namespace forestall;
using namespace forestall::kernel;
using test::require;

void require_amount(const std::optional<Bytes>& value) {
  require(!value || value->count >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto meminfo = parse_meminfo(text)) {
    require_amount(meminfo->total);
    require_amount(meminfo->available);
    require_amount(meminfo->swap_free);
  }
  static_cast<void>(parse_vmstat(text));
  static_cast<void>(parse_memory_events(text));
  if (const auto stat = parse_memory_stat(text)) {
    require_amount(stat->anon);
    require_amount(stat->inactive_file);
    require_amount(stat->hierarchical_limit);
  }
  if (const auto amount = parse_amount(text)) {
    require_amount(*amount);
    require(!*amount || (*amount)->count < (std::int64_t{1} << 62));
  }
  if (const auto psi = parse_psi(text)) require(!psi->some || psi->some->total >= Duration::zero());
  if (const auto record = parse_amount_record(text)) {
    const auto again = parse_amount_record(to_string(*record));
    require(again && *again == *record);
  }
  return 0;
}
