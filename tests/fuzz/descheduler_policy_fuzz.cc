// SPDX-License-Identifier: Apache-2.0
// Any text as a DeschedulerPolicy: errors with messages, or a policy whose effective form parses to
// itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "descheduler/descheduler_policy.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void run(std::string_view input) {
  text::Findings findings;
  const auto policy = descheduler::parse_descheduler_policy("p", input, nullptr, findings);
  require(policy.has_value() == findings.errors.empty());
  if (!policy) return;
  text::Findings again;
  const auto effective =
      descheduler::parse_descheduler_policy("e", policy->effective, nullptr, again);
  require(effective && effective->effective == policy->effective);
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
