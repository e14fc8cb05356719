// SPDX-License-Identifier: Apache-2.0
// Any text as messages of PID 1 and of user managers: refused with messages, or rules whose limits
// and paths are within their bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "intake/managed_oom_messages.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void run(std::string_view text, int systemd_version) {
  text::Findings findings;
  const auto messages =
      intake::read_managed_oom_messages(text, "messages", systemd_version, findings);
  for (const text::Finding& each : findings.errors) require(each.origin.at.has_value());
  const intake::CgroupOwners owners{{"/a", 1000}, {"/b", std::nullopt}};
  rulesets::ManagedOomRules rules;
  for (const intake::ManagedOomMessage& each : messages) {
    (void)intake::apply_managed_oom(each, {}, owners, rules);
  }
  for (const std::string& path : rules.swap) require(path.starts_with('/'));
  for (const auto& [path, rule] : rules.pressure) {
    require(path.starts_with('/'));
    require(rule.limit_permyriad >= 0 && rule.limit_permyriad <= 10000);
    require(rule.duration.count() >= 0);
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  forestall::run(text, 252);
  forestall::run(text, 257);
  return 0;
}
