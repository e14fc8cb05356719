// SPDX-License-Identifier: Apache-2.0
// What managers of users report to systemd-oomd's socket.
#include "daemon/user_managed_oom.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/managed_oom_watch.h"
#include "daemon/varlink_managed_oom.h"
#include "support/fake_managed_oom.h"
#include "support/user_reporter.h"

namespace forestall::test::user_managed_oom_test {
namespace {

using namespace std::chrono_literals;
using daemon::UserManagedOom;
using testing::ElementsAre;
using testing::IsEmpty;
using Manager = UserReporter;

std::string kill_of(const std::string& cgroup, const std::string& mode = "kill",
                    std::uint32_t limit = 0) {
  return UserReporter::pressure_of(cgroup, mode, limit);
}

constexpr uid_t kAlice = 61001;
constexpr uid_t kBob = 61002;

UniqueFd listening_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr address{AF_UNIX, {}};
  EXPECT_EQ(::bind(socket.get(), &address, sizeof(address.sa_family)), 0);  // a name of the kernel
  EXPECT_EQ(::listen(socket.get(), 256), 0);
  return socket;
}

class UserManagedOomTest : public ::testing::Test {
 protected:
  std::unique_ptr<UserManagedOom> start() {
    return UserManagedOom::start(log_, UniqueFd(::dup(listening_.get())),
                                 [this](const std::string& cgroup) -> std::optional<uid_t> {
                                   const auto found = owners_.find(cgroup);
                                   if (found == owners_.end()) return std::nullopt;
                                   return found->second;
                                 })
        .value();
  }
  // Until nothing is left to do.
  void process() {
    pollfd ready{users_->fd(), POLLIN, 0};
    while (::poll(&ready, 1, 0) > 0) users_->process();
  }
  [[nodiscard]] std::vector<std::string> cgroups() const {
    std::vector<std::string> found;
    for (const daemon::ReportedElement& each : users_->elements()) {
      found.push_back(each.element.path);
    }
    return found;
  }

  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  UniqueFd listening_ = listening_socket();
  std::map<std::string, uid_t> owners_{{"/alice", kAlice}, {"/alice/b", kAlice}, {"/bob", kBob}};
  std::unique_ptr<UserManagedOom> users_ = start();
};

TEST_F(UserManagedOomTest, AUserReportsOwnCgroups) {
  const Manager alice(listening_, kAlice);
  alice.report(kill_of("/alice") + "," + kill_of("/alice/b"));
  process();
  EXPECT_TRUE(users_->has_changes());
  EXPECT_THAT(cgroups(), ElementsAre("/alice", "/alice/b"));
  users_->refresh();
  EXPECT_FALSE(users_->has_changes());
  alice.report(kill_of("/alice"));
  process();
  EXPECT_FALSE(users_->has_changes()) << "the same again";
  alice.report(kill_of("/alice", "auto"));
  process();
  EXPECT_TRUE(users_->has_changes());
  EXPECT_THAT(cgroups(), ElementsAre("/alice/b"));
}

// Elements before the one of another owner stay, as in systemd-oomd.
TEST_F(UserManagedOomTest, AnotherOwnersCgroupEndsTheConnection) {
  const Manager alice(listening_, kAlice);
  alice.report(kill_of("/alice") + "," + kill_of("/gone") + "," + kill_of("/bob") + "," +
               kill_of("/alice/b"));
  process();
  EXPECT_FALSE(alice.is_open());
  EXPECT_THAT(cgroups(), ElementsAre("/alice"));
}

TEST_F(UserManagedOomTest, RootReportsAnyCgroup) {
  const Manager root(listening_, 0);
  root.report(kill_of("/bob"));
  process();
  EXPECT_THAT(cgroups(), ElementsAre("/bob"));
}

TEST_F(UserManagedOomTest, ACgroupThatHasAnotherOwnerNowIsDropped) {
  const Manager alice(listening_, kAlice);
  alice.report(kill_of("/alice") + "," + kill_of("/alice/b"));
  process();
  owners_["/alice"] = kBob;
  owners_.erase("/alice/b");
  users_->refresh();
  EXPECT_THAT(cgroups(), IsEmpty());
}

TEST_F(UserManagedOomTest, AnythingElseEndsTheConnectionAndChangesNothing) {
  const Manager good(listening_, kAlice);
  good.report(kill_of("/alice"));
  process();
  for (const std::string& bytes :
       {std::string("no JSON") + '\0', std::string("{}") + '\0',
        std::string(R"({"method":"org.varlink.service.GetInfo"})") + '\0',
        std::string(R"({"method":"io.systemd.oom.ReportManagedOOMCGroups"})") + '\0',
        std::string(UserManagedOom::kReportBytesMax + 1, ' ')}) {
    const Manager broken(listening_, kAlice);
    broken.send(bytes);
    process();
    EXPECT_FALSE(broken.is_open()) << bytes.substr(0, 80);
    EXPECT_THAT(cgroups(), ElementsAre("/alice"));
  }
  EXPECT_TRUE(good.is_open());
}

TEST_F(UserManagedOomTest, ACallThatIsNotOnewayHasAReply) {
  const Manager alice(listening_, kAlice);
  alice.send(R"({"method":"io.systemd.oom.ReportManagedOOMCGroups","parameters":{"cgroups":[]}})" +
             std::string(1, '\0'));
  process();
  EXPECT_EQ(alice.reply(), std::string("{\"parameters\":{}}") + '\0');
}

TEST_F(UserManagedOomTest, AUserHasBoundedConnectionsAndCgroups) {
  std::vector<Manager> many;
  for (std::size_t i = 0; i <= UserManagedOom::kClientsOfUserMax; ++i) {
    many.emplace_back(listening_, kAlice);
  }
  process();
  for (std::size_t i = 0; i < many.size(); ++i) {
    EXPECT_EQ(many[i].is_open(), i < UserManagedOom::kClientsOfUserMax) << i;
  }
  std::string all;
  for (std::size_t i = 0; i <= UserManagedOom::kElementsOfUserMax; ++i) {
    const std::string cgroup = fmt::format("/alice/{}", i);
    owners_[cgroup] = kAlice;
    all += (i == 0 ? "" : ",") + kill_of(cgroup);
  }
  many[0].report(all);
  const Manager bob(listening_, kBob);
  bob.report(kill_of("/bob"));
  process();
  EXPECT_EQ(users_->elements().size(), UserManagedOom::kElementsOfUserMax + 1);
}

TEST_F(UserManagedOomTest, PidOnesRuleForACgroupOfAUserHolds) {
  FakeManagedOom pid1;
  const SystemClock clock;
  const auto watch = daemon::ManagedOomWatch::start(
      log_, clock,
      std::make_unique<daemon::VarlinkManagedOom>(clock, std::vector<std::string>{pid1.path()}, 1h,
                                                  std::move(users_)),
      {1h, 1ms, 1ms, 1h});
  ASSERT_TRUE(watch.ok());
  (*watch)->follow(rulesets::OomdConf());
  const auto next = [&] {
    pollfd fd{(*watch)->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
    EXPECT_TRUE((*watch)->take());
    return (*watch)->state()->rules.pressure;
  };
  pid1.accept();
  pid1.report(kill_of("/alice", "kill", 429496729));
  EXPECT_EQ(next().at("/alice").limit_permyriad, 1000);
  const Manager alice(listening_, kAlice);
  alice.report(kill_of("/alice", "kill", 4294967295) + "," + kill_of("/alice/b"));
  const auto rules = next();
  EXPECT_EQ(rules.at("/alice").limit_permyriad, 1000);
  EXPECT_EQ(rules.at("/alice/b").limit_permyriad, 6000);
}

}  // namespace
}  // namespace forestall::test::user_managed_oom_test
