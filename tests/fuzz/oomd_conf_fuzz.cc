// SPDX-License-Identifier: Apache-2.0
// Any text as oomd.conf: refused with messages, or limits within their bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "intake/oomd_conf.h"
#include "intake/systemd_values.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void run(std::string_view text, int systemd_version) {
  text::Findings findings;
  const auto conf = intake::read_oomd_conf(text, "oomd.conf", systemd_version, findings);
  require(conf.swap_used_limit >= 0 && conf.swap_used_limit <= 10000);
  require(conf.pressure_limit >= 0 && conf.pressure_limit <= 10000);
  require(conf.pressure_duration >= std::chrono::seconds(1));
  for (const text::Finding& each : findings.warnings) require(each.origin.at.has_value());
  const auto span = intake::parse_systemd_span(text);
  require(!span || span->count() >= 0);
  const auto permyriad = intake::parse_permyriad(text);
  require(!permyriad || (*permyriad >= 0 && *permyriad <= 10000));
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  forestall::run(text, 252);
  forestall::run(text, 257);
  return 0;
}
