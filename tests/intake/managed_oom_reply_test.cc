// SPDX-License-Identifier: Apache-2.0
#include "intake/managed_oom_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace forestall::intake {
namespace {

using rulesets::ManagedOomElement;
using rulesets::ManagedOomProperty;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ManagedOomReply, HasElementsOfEverySystemd) {
  // systemd 252: a limit always, and no duration; the root's path is empty.
  const auto old = read_managed_oom_reply(
      R"({"parameters":{"cgroups":[
        {"mode":"kill","path":"","property":"ManagedOOMSwap"},
        {"mode":"auto","path":"/a.slice","property":"ManagedOOMMemoryPressure","limit":0}]},
        "continues":true})");
  ASSERT_TRUE(old) << old.error().text();
  EXPECT_TRUE(old->continues);
  EXPECT_THAT(old->elements,
              ElementsAre(ManagedOomElement{true, "/", ManagedOomProperty::swap, 0, {}},
                          ManagedOomElement{
                              false, "/a.slice", ManagedOomProperty::memory_pressure, 0, {}}));
  const auto later = read_managed_oom_reply(
      R"({"parameters":{"cgroups":[{"mode":"kill","path":"/b","limit":2147483647,
        "property":"ManagedOOMMemoryPressure","duration":5000000,"new":{"field":[1]}}],"more":1},
        "continues":true,"new":null,"error":null})");
  ASSERT_TRUE(later) << later.error().text();
  EXPECT_THAT(later->elements,
              ElementsAre(ManagedOomElement{true, "/b", ManagedOomProperty::memory_pressure,
                                            2147483647, std::chrono::seconds(5)}));
  EXPECT_THAT(later->skipped, IsEmpty()) << "unknown fields are ignored";
  EXPECT_FALSE(read_managed_oom_reply(R"({"parameters":{"cgroups":[]}})")->continues);
}

TEST(ManagedOomReply, AMalformedElementIsSkippedWithTheReason) {
  const auto reply = read_managed_oom_reply(
      R"({"parameters":{"cgroups":[7,{"mode":"kill","path":"a","property":"ManagedOOMSwap"},
        {"mode":"kill","path":"/a","property":"ManagedOOMCpu"},
        {"mode":"kill","path":"/b","property":"ManagedOOMSwap"}]},"continues":true})");
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->elements.size(), 1U);
  EXPECT_EQ(reply->elements.front().path, "/b");
  EXPECT_THAT(reply->skipped,
              ElementsAre(HasSubstr("not an object"), HasSubstr("'path' must begin with '/'"),
                          HasSubstr("'property' must be")));
  std::string many = R"({"parameters":{"cgroups":[0)";
  for (int i = 0; i < 1000; ++i) many += ",0";
  EXPECT_EQ(read_managed_oom_reply(many + "]}}")->skipped.size(), 16U);
}

TEST(ManagedOomReply, WhatIsNoReplyIsAnError) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "invalid JSON"},
      {R"({"parameters":{"cgroups":[)", "invalid JSON"},
      {"{}{}", "after the end"},
      {"\xff", "not UTF-8"},
      {"[]", "not an object"},
      {"{}", "no list 'cgroups'"},
      {R"({"parameters":[]})", "no list 'cgroups'"},
      {R"({"parameters":{"cgroups":{}}})", "no list 'cgroups'"},
      {R"({"error":1})", "'error' is not a string"},
      {R"({"error":"org.varlink.service.PermissionDenied","parameters":{}})",
       "refused with org.varlink.service.PermissionDenied: PID 1 accepts systemd-oomd.service "
       "only"},
      {R"({"error":"io.systemd.ManagedOOM.SubscriptionTaken","parameters":{"cgroups":[]}})",
       "another process is subscribed"},
      {R"({"error":"a\u001b[31m"})", "refused with a?[31m"},
      {std::string(100000, '['), "invalid JSON"},
  };
  for (const auto& [text, problem] : cases) {
    const auto reply = read_managed_oom_reply(text);
    ASSERT_FALSE(reply) << text.substr(0, 100);
    EXPECT_THAT(reply.error().text(), HasSubstr(problem));
  }
}

}  // namespace
}  // namespace forestall::intake
