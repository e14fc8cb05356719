// SPDX-License-Identifier: Apache-2.0
// Messages of varlink and a subscription.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "clients/varlink_messages.h"
#include "clients/varlink_subscription.h"
#include "support/fake_managed_oom.h"

namespace forestall::clients {
namespace {

using namespace std::string_view_literals;
using test::FakeManagedOom;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(VarlinkMessages, EndWithNul) {
  VarlinkMessages messages;
  EXPECT_THAT(*messages.add("{\"a\""), IsEmpty());
  EXPECT_THAT(*messages.add(":1}"), IsEmpty());
  EXPECT_THAT(*messages.add("\0{}\0\0{\"b\""sv), ElementsAre("{\"a\":1}", "{}", ""));
  EXPECT_THAT(*messages.add(":2}\0"sv), ElementsAre("{\"b\":2}"));
}

TEST(VarlinkMessages, HaveABoundInOnePieceAndInMany) {
  EXPECT_TRUE(VarlinkMessages(4).add("1234\0"sv));
  EXPECT_FALSE(VarlinkMessages(4).add("12345\0"sv));
  EXPECT_FALSE(
      VarlinkMessages(4).add("1\0"
                             "12345"sv));
  VarlinkMessages pieces(4);
  EXPECT_TRUE(pieces.add("123"));
  EXPECT_THAT(pieces.add("45").error().text(), HasSubstr("more than 4 bytes"));
}

std::vector<std::string> received(VarlinkSubscription& subscription) {
  pollfd fd{subscription.fd(), POLLIN, 0};
  ::poll(&fd, 1, -1);
  return *subscription.receive();
}

TEST(VarlinkSubscription, CallsWithMoreAndReceivesReplies) {
  FakeManagedOom server;
  auto subscription = VarlinkSubscription::start({server.path()}, "a.b.Subscribe");
  ASSERT_TRUE(subscription) << subscription.error().text();
  EXPECT_EQ(server.accept(), R"({"method":"a.b.Subscribe","more":true})");
  EXPECT_THAT(*subscription->receive(), IsEmpty()) << "does not wait";
  server.send("{}\0{\"rest\""sv);
  EXPECT_THAT(received(*subscription), ElementsAre("{}"));
  server.send(":1}\0"sv);
  server.hang_up();
  EXPECT_THAT(received(*subscription), ElementsAre("{\"rest\":1}"));
  EXPECT_THAT(subscription->receive().error().text(), HasSubstr("closed the connection"));
}

TEST(VarlinkSubscription, TheFirstSocketWithAListenerIsUsed) {
  FakeManagedOom server;
  const auto old = VarlinkSubscription::start({"/nonexistent/new", server.path()}, "a.b.C");
  ASSERT_TRUE(old);
  EXPECT_THAT(server.accept(), HasSubstr("a.b.C"));
  const auto none = VarlinkSubscription::start({"/nonexistent/new", "/nonexistent/old"}, "a.b.C");
  EXPECT_THAT(none.error().text(), HasSubstr("connect /nonexistent/new: No such file"));
  EXPECT_FALSE(VarlinkSubscription::start({std::string(200, 'x'), server.path()}, "a.b.C"));
}

}  // namespace
}  // namespace forestall::clients
