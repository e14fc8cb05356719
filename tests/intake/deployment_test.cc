// SPDX-License-Identifier: Apache-2.0
// The files that install the agent agree with each other.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace forestall::test {
namespace {

// "CAP_KILL CAP_BPF" and "KILL, BPF" as a set.
std::set<std::string> capabilities(const std::string& file, const char* list_is) {
  std::ostringstream text;
  text << std::ifstream(std::string(FORESTALL_DEPLOY "/") + file).rdbuf();
  const std::string whole = text.str();
  std::smatch found;
  std::set<std::string> names;
  if (!std::regex_search(whole, found, std::regex(list_is))) return names;
  const std::string list = found[1];
  const std::regex name("(?:CAP_)?([A-Z_]+)");
  for (std::sregex_iterator each(list.begin(), list.end(), name), end; each != end; ++each) {
    names.insert((*each)[1]);
  }
  return names;
}

TEST(Deployment, DaemonSetGrantsTheCapabilitiesOfTheUnitButSyslog) {
  const auto unit = capabilities("forestall.service", "CapabilityBoundingSet=([^\n]*)");
  auto pod = capabilities("kubernetes/base/daemonset.yaml", "add: \\[([^\\]]*)\\]");
  EXPECT_TRUE(pod.insert("SYSLOG").second) << "a container has no access to /dev/kmsg";
  EXPECT_EQ(unit, pod);
  EXPECT_TRUE(unit.contains("DAC_READ_SEARCH")) << "paths of cgroups from their ids";
  EXPECT_TRUE(unit.contains("SYSLOG")) << "/dev/kmsg";
  EXPECT_FALSE(unit.contains("SYS_ADMIN")) << "equals root; the agent works without";
  EXPECT_FALSE(unit.contains("SYS_PTRACE")) << "equals root; the agent works without";
}

}  // namespace
}  // namespace forestall::test
