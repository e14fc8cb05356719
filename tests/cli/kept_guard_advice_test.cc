// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_guard_advice.h"

#include <gtest/gtest.h>

#include "base/result.h"

namespace forestall::cli {
namespace {

using clients::DescriptorStoreLimit;

TEST(KeptGuardAdvice, ReportsOnlyAStoreThatIsTooSmallOrUnknown) {
  const auto of = [](std::uint32_t max) {
    return kept_guard_advice(std::optional(DescriptorStoreLimit{"forestall.service", max, 252}));
  };
  EXPECT_EQ(of(16), std::nullopt);
  EXPECT_EQ(of(5),
            "guard: it ends with the agent, because forestall.service has "
            "FileDescriptorStoreMax=5, and the guard has 6 descriptors; set it to 16.");
  EXPECT_EQ(kept_guard_advice(std::optional<DescriptorStoreLimit>()), std::nullopt);
  EXPECT_EQ(kept_guard_advice(error("there is no\x1b"
                                    "bus")),
            "guard: unknown whether systemd keeps it when forestall.service ends, because there is "
            "no?bus.");
}

}  // namespace
}  // namespace forestall::cli
