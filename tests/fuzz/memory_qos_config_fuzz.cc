// SPDX-License-Identifier: Apache-2.0
// Any text as a KubeletConfiguration with settings of memory QoS: rejected with messages that have
// a position, or settings within their bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "intake/memory_qos_config.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void run(std::string_view text, int minor) {
  MemoryQosSettings settings;
  settings.kubelet_minor = minor;
  text::Findings findings;
  intake::read_memory_qos_config(text, "kubelet.yaml", Bytes{1LL << 40}, settings, findings);
  for (const text::Finding& each : findings.errors) require(!each.message.empty());
  if (!findings.errors.empty()) return;
  require(settings.node_allocatable >= 0 && settings.node_allocatable <= 1LL << 40);
  const auto& factor = settings.throttling_factor;
  require(!factor || (*factor > 0 && *factor <= 1));
  (void)intake::parse_kubelet_minor(text);
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  forestall::run(text, 35);
  forestall::run(text, 37);
  return 0;
}
