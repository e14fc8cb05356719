// SPDX-License-Identifier: Apache-2.0
#include "hostile/tricks.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr std::array<const char*, kOffences> kOffenceNames{"none",  "anon",  "runaway", "shared",
                                                           "memfd", "split", "tmpfs",   "sysv"};
constexpr std::array<const char*, kTricks> kTrickNames{
    "deep",          "wide",       "names",        "xattrs",     "threads",
    "zombie-leader", "fork-chain", "fork-storm",   "exec-storm", "stopped",
    "frozen",        "zombies",    "churn",        "rename",     "page-cache",
    "direct-io",     "hugetlb",    "stray-thread", "recreate",   "very-wide"};

bool has_free_huge_pages() {
  std::ifstream file("/proc/sys/vm/nr_hugepages");
  int pages = 0;
  return file >> pages && pages > 0;
}

}  // namespace

const char* name_of(Offence offence) {
  return kOffenceNames.at(static_cast<std::size_t>(offence));
}

const char* name_of(Trick trick) {
  return kTrickNames.at(static_cast<std::size_t>(trick));
}

std::optional<std::string> missing_for(Trick trick) {
  if (trick == Trick::frozen && mounts().v1)
    return "cgroup.freeze is a file of cgroup v2; runs in the VM tests";
  if (trick == Trick::rename && !mounts().v1)
    return "only cgroup v1 renames groups; runs on cgroup v1, as in the VM test 6.1 v1";
  if (trick == Trick::stray_thread && !mounts().v1) {
    return "cgroup v2 keeps the threads of a process in one domain; runs on cgroup v1, as in the "
           "VM "
           "test 6.1 v1";
  }
  if (trick == Trick::hugetlb && !has_free_huge_pages())
    return "vm.nr_hugepages is 0; runs in the VM tests";
  return std::nullopt;
}

bool RoundPlan::has(Trick trick) const {
  return std::find(tricks.begin(), tricks.end(), trick) != tricks.end();
}

std::string RoundPlan::text() const {
  std::string text = name_of(offence);
  for (const Trick each : tricks) text += std::string("+") + name_of(each);
  return text;
}

RoundPlan plan_round(std::uint64_t seed, std::uint64_t round) {
  Dice dice(seed * 0x9e3779b97f4a7c15ULL + round);
  RoundPlan plan;
  // Memory that outlives its owner needs a long round, so that such rounds are few.
  if (dice.one_in(16)) {
    plan.offence = dice.one_in(2) ? Offence::tmpfs : Offence::sysv;
  } else if (dice.one_in(20)) {
    plan.offence = Offence::none;
  } else {
    plan.offence = static_cast<Offence>(dice.between(1, 5));
  }
  for (std::uint64_t wanted = dice.below(4); wanted > 0; --wanted) {
    const auto trick = static_cast<Trick>(dice.below(kTricks));
    if (plan.has(trick) || missing_for(trick)) continue;
    // It takes seconds in a guest.
    if (trick == Trick::very_wide && !dice.one_in(8)) continue;
    plan.tricks.push_back(trick);
  }
  plan.seed = dice.below(UINT64_MAX);
  return plan;
}

}  // namespace forestall::test
