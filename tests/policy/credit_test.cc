// SPDX-License-Identifier: Apache-2.0
// Credit: memory on its way back, per subject, never more than there is.
#include "policy/credit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

constexpr MemoryLevel kFull{.capacity = gib(8), .usage = gib(8), .inactive_file = {0}};

TEST(CreditTest, Table) {
  struct Case {
    std::string name;
    std::vector<KillProgress> kills;
    std::string subject;  // "/": the node
    Bytes credit;
  };
  const std::vector<Case> cases{
      {"no kills", {}, "/", {0}},
      {"the node is credited every kill", {kill("/a", mib(5)), kill("/b/c", mib(7))}, "/", mib(12)},
      {"a cgroup is credited its own", {kill("/a", mib(5))}, "/a", mib(5)},
      {"a cgroup is credited those below it", {kill("/a/b/c", mib(5))}, "/a", mib(5)},
      {"a cgroup is not credited its neighbour's", {kill("/ab", mib(5))}, "/a", {0}},
      {"a subject inside the victim comes back with it", {kill("/a", mib(5))}, "/a/b", mib(5)},
      {"a stuck kill has lost its credit", {kill("/a", mib(5), KillState::stuck)}, "/", {0}},
      {"a failed kill never had any", {kill("/a", mib(5), KillState::failed)}, "/", {0}},
      {"released memory is already back", {kill("/a", mib(5), KillState::released)}, "/", {0}},
      {"a victim in a victim counts once", {kill("/a/b", mib(3)), kill("/a", mib(5))}, "/", mib(5)},
      {"a victim listed twice counts once", {kill("/a", mib(5)), kill("/a", mib(5))}, "/", mib(5)},
      {"of two figures the larger counts", {kill("/a", mib(5)), kill("/a", mib(6))}, "/", mib(6)},
      {"a stuck parent does not swallow its child's credit",
       {kill("/a", mib(9), KillState::stuck), kill("/a/b", mib(3))},
       "/",
       mib(3)},
      {"never more than is used", {kill("/a", gib(20))}, "/", gib(8)},
      {"a negative remainder is nothing", {kill("/a", mib(-5)), kill("/b", mib(2))}, "/", mib(2)},
  };
  for (const Case& one : cases) {
    const Subject subject =
        one.subject == "/" ? Subject{} : Subject{id_of(one.subject), one.subject};
    EXPECT_EQ(Credit(one.kills).of(subject, kFull), one.credit) << one.name;
    std::vector<KillProgress> reversed(one.kills.rbegin(), one.kills.rend());
    EXPECT_EQ(Credit(reversed).of(subject, kFull), one.credit) << one.name << ", reversed";
  }
}

}  // namespace
}  // namespace forestall::policy
