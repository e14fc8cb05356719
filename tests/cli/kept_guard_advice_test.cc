// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_guard_advice.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace forestall::cli {
namespace {

using clients::DescriptorStoreLimit;

std::optional<std::string> advice_of(std::uint32_t max, const std::string& keep_guard = {}) {
  return kept_guard_advice(keep_guard,
                           std::optional(DescriptorStoreLimit{"forestall.service", max, 252}));
}

TEST(KeptGuardAdvice, ReportsOnlyAStoreThatIsTooSmallOrUnknown) {
  EXPECT_EQ(advice_of(11), std::nullopt);
  EXPECT_EQ(advice_of(10),
            "guard: with `--keep-guard systemd` it ends with the agent, because forestall.service "
            "has FileDescriptorStoreMax=10, and the next agent's guard takes over with up to 11 "
            "descriptors; set it to 16.");
  EXPECT_EQ(kept_guard_advice({}, std::optional<DescriptorStoreLimit>()), std::nullopt);
  EXPECT_EQ(kept_guard_advice({}, error("there is no\x1b"
                                        "bus")),
            "guard: with `--keep-guard systemd` it is unknown whether it stays when "
            "forestall.service ends, because there is no?bus.");
}

TEST(KeptGuardAdvice, HasNothingOnAGuardInADirectory) {
  EXPECT_TRUE(advice_of(0, "systemd"));
  EXPECT_EQ(advice_of(0, "/sys/fs/bpf/forestall"), std::nullopt);
  EXPECT_EQ(kept_guard_advice("/sys/fs/bpf/forestall", error("no bus")), std::nullopt);
}

}  // namespace
}  // namespace forestall::cli
