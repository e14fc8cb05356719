// SPDX-License-Identifier: Apache-2.0
#include "actuators/usage_meter.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using kernel::CgroupDir;
using kernel::CgroupVersion;
using test::TempTree;

TEST(MemoryIsBack, IfAllExitedAndTheUsageFell) {
  EXPECT_TRUE(memory_is_back(mib(100), mib(99), true));
  EXPECT_TRUE(memory_is_back(mib(100), Bytes{0}, true));
  EXPECT_FALSE(memory_is_back(mib(100), mib(100), true)) << "all of it is page cache, or not yet";
  EXPECT_FALSE(memory_is_back(mib(100), mib(101), true));
  EXPECT_TRUE(memory_is_back(Bytes{0}, Bytes{0}, true)) << "nothing was there to come back";
  EXPECT_TRUE(memory_is_back(kUsageGrain, mib(2), true)) << "too little to distinguish";
}

TEST(MemoryIsBack, IfNineTenthsAreFreeAlthoughAProcessLives) {
  EXPECT_TRUE(memory_is_back(mib(100), mib(10), false));
  EXPECT_FALSE(memory_is_back(mib(100), mib(10) + Bytes{1}, false));
  EXPECT_FALSE(memory_is_back(Bytes{0}, Bytes{0}, false)) << "unknown or empty before: no proof";
}

UsageMeter meter_on(const TempTree& tree, CgroupVersion version) {
  const UniqueFd root(open(tree.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto dir = CgroupDir::open(root.get(), "/group");
  auto meter = UsageMeter::open(*dir, version);
  if (!meter.ok()) throw std::runtime_error(meter.error().text());
  return std::move(meter).value();
}

TEST(UsageMeter, ReadsTheFileOfItsVersionAgainAndAgain) {
  const TempTree tree{{"group/memory.current", "4096\n"},
                      {"group/memory.usage_in_bytes", "8192\n"}};
  const auto v2 = meter_on(tree, CgroupVersion::v2);
  EXPECT_EQ(*v2.read(), Bytes{4096});
  EXPECT_EQ(*meter_on(tree, CgroupVersion::v1).read(), Bytes{8192});
  tree.write("group/memory.current", "123456789012\n");
  EXPECT_EQ(*v2.read(), Bytes{123456789012});
}

TEST(UsageMeter, RejectsTextThatIsNotANumber) {
  for (const char* text : {"", "max\n", "12x\n", "1 2\n", "99999999999999999999\n"}) {
    const TempTree tree{{"group/memory.current", text}};
    EXPECT_FALSE(meter_on(tree, CgroupVersion::v2).read().ok()) << text;
  }
}

TEST(UsageMeter, ReturnsEnodevForARemovedCgroup) {
  test::ScratchCgroup scratch;
  const auto path = scratch.child("gone");
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  const auto meter = UsageMeter::open(*tree->open(path), tree->version());
  ASSERT_TRUE(meter.ok());
  EXPECT_TRUE(meter->read().ok());
  scratch.remove_child(path);
  EXPECT_EQ(meter->read().error().code, ENODEV);
}

}  // namespace
}  // namespace forestall::actuators
