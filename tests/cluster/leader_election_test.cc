// SPDX-License-Identifier: Apache-2.0
#include "cluster/leader_election.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCreateLease =
    "POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
constexpr const char* kGetLease =
    "GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/descheduler";
constexpr const char* kUpdateLease =
    "PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/descheduler";

// `renewed`: empty: with this version.
std::string lease(const std::string& holder, const std::string& version, int duration = 137,
                  const std::string& renewed = "") {
  return fmt::format(
      R"({{"metadata":{{"resourceVersion":"{}"}},"spec":{{"holderIdentity":"{}",)"
      R"("leaseDurationSeconds":{},"acquireTime":"a","renewTime":"{}","leaseTransitions":4}}}})",
      version, holder, duration, renewed.empty() ? version : renewed);
}

LeaseOptions lease_of(const std::string& identity) {
  LeaseOptions options;
  options.identity = identity;
  return options;
}

class LeaderElectionTest : public ::testing::Test {
 protected:
  // "METHOD TARGET" of the next request, if it is due within `longest`; answered so after `delay`.
  std::string play(int code, const std::string& body = kStatusAnswer, Duration delay = {},
                   Duration longest = seconds(200)) {
    const auto due = election_.due();
    if (!due || *due > now_ + longest) return "";
    now_ = std::max(now_, *due);
    const auto request = election_.next(now_);
    if (!request) return "";
    EXPECT_FALSE(election_.next(now_)) << "one request at a time";
    last_ = request->http;
    now_ += delay;
    election_.answered(request->key, {code, "", ""}, body,
                       code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now_);
    return last_.method + ' ' + last_.target;
  }
  void become_leader() {
    EXPECT_EQ(play(404, kNoLease), kGetLease);
    EXPECT_EQ(play(201), kCreateLease);
    EXPECT_TRUE(election_.leads(now_));
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  kubernetes::OutgoingRequest last_;
  std::int64_t wall_ = 1'764'093'600'000'001;
  LeaderElection election_{lease_of("me"), [this] { return wall_; }, [] { return 0.0; }};
};

// Of a load balancer. As the answer that there is none, it would begin the wait for a dead leader
// anew each time, and no process would lead.
TEST_F(LeaderElectionTest, A404ThatDoesNotNameTheLeaseIsAFailure) {
  for (const char* body : {"", "<html>", R"({"kind":"Status","code":404,"reason":"NotFound"})"}) {
    EXPECT_EQ(play(404, body), kGetLease);
  }
  EXPECT_EQ(play(404, kNoLease), kGetLease);
  EXPECT_EQ(play(201), kCreateLease);
}

TEST_F(LeaderElectionTest, CreatesTheLease) {
  EXPECT_FALSE(election_.leads(now_));
  become_leader();
  EXPECT_EQ(last_.body,
            R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":)"
            R"("descheduler","namespace":"kube-system"},"spec":{"holderIdentity":"me",)"
            R"("leaseDurationSeconds":137,"acquireTime":"2025-11-25T18:00:00.000001Z",)"
            R"("renewTime":"2025-11-25T18:00:00.000001Z","leaseTransitions":0}})");
}

// Else two processes lead.
TEST_F(LeaderElectionTest, AProxyThatAcceptsMakesNoLeader) {
  for (const char* body : {"", "<html>Log in</html>", "{}", R"({"kind":"Status"})"}) {
    EXPECT_EQ(play(404, kNoLease), kGetLease);
    EXPECT_EQ(play(200, body), kCreateLease);
    EXPECT_FALSE(election_.leads(now_)) << body;
    EXPECT_NE(election_.problem(), "");
  }
}

TEST_F(LeaderElectionTest, RenewsAndLeadsUntilTheDeadline) {
  become_leader();
  const MonotonicTime acquired = now_;
  EXPECT_EQ(play(200, lease("me", "5")), kGetLease);
  EXPECT_EQ(now_, acquired + seconds(26));
  EXPECT_EQ(play(200), kUpdateLease);
  EXPECT_THAT(last_.body, HasSubstr(R"("resourceVersion":"5")"));
  EXPECT_THAT(last_.body, HasSubstr(R"("acquireTime":"a")"));
  EXPECT_THAT(last_.body, HasSubstr(R"("leaseTransitions":4)"));
  const MonotonicTime renewed = now_;
  while (now_ < renewed + seconds(107)) {
    EXPECT_TRUE(election_.leads(now_));
    ASSERT_NE(play(now_ < renewed + seconds(50) ? 500 : 0), "");
  }
  EXPECT_FALSE(election_.leads(now_));
  EXPECT_EQ(election_.leads_until(), renewed + seconds(107));
}

TEST_F(LeaderElectionTest, RenewsAtTheSameTimesIfTheClockIsSet) {
  become_leader();
  for (const std::int64_t by : {-5, 9}) {
    const MonotonicTime acquired = now_;
    wall_ += by * 3'600'000'000;
    EXPECT_TRUE(election_.leads(now_));
    EXPECT_EQ(play(200, lease("me", std::to_string(by))), kGetLease);
    EXPECT_EQ(now_, acquired + seconds(26));
    EXPECT_EQ(play(200), kUpdateLease);
    EXPECT_EQ(now_, acquired + seconds(26));
    EXPECT_EQ(election_.leads_until(), now_ + seconds(107));
  }
}

// The server may have accepted the change when it was sent.
TEST_F(LeaderElectionTest, LeadsFromTheBeginOfItsRequest) {
  EXPECT_NE(play(404, kNoLease), "");
  const MonotonicTime begun = now_;
  EXPECT_NE(play(201, kStatusAnswer, seconds(9)), "");
  EXPECT_EQ(election_.leads_until(), begun + seconds(107));
}

TEST_F(LeaderElectionTest, WaitsUntilTheLeaseOfAnotherHolderExpires) {
  const MonotonicTime begin = now_;
  while (now_ - begin < seconds(137)) {
    ASSERT_EQ(play(200, lease("other", "5")), kGetLease);
    EXPECT_EQ(election_.holder(), "other");
  }
  EXPECT_EQ(now_, begin + seconds(137));
  EXPECT_EQ(play(200), kUpdateLease);
  EXPECT_THAT(last_.body, HasSubstr(R"("holderIdentity":"me")"));
  EXPECT_THAT(last_.body, HasSubstr(R"("leaseTransitions":5)"));
  EXPECT_TRUE(election_.leads(now_));
}

TEST_F(LeaderElectionTest, WaitsWhileAnotherHolderRenews) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(play(200, lease("other", std::to_string(i))), kGetLease);
  }
  EXPECT_FALSE(election_.leads(now_));
}

TEST_F(LeaderElectionTest, AChangeOfTheMetadataRenewsNothing) {
  const MonotonicTime begin = now_;
  for (int i = 0; now_ - begin < seconds(137); ++i) {
    ASSERT_EQ(play(200, lease("other", std::to_string(i), 137, "r")), kGetLease);
  }
  EXPECT_EQ(now_, begin + seconds(137));
  EXPECT_EQ(play(200), kUpdateLease);
}

TEST_F(LeaderElectionTest, WaitsForAHolderWithALongerLease) {
  const MonotonicTime begin = now_;
  while (now_ - begin < seconds(300)) {
    ASSERT_EQ(play(200, lease("other", "5", 300)), kGetLease);
  }
  EXPECT_EQ(play(200), kUpdateLease);
}

TEST_F(LeaderElectionTest, TakesALeaseThatWasReleased) {
  EXPECT_EQ(play(200, lease("", "5", 1)), kGetLease);
  EXPECT_EQ(play(200), kUpdateLease);
}

TEST_F(LeaderElectionTest, ReadsAgainAfterAConflict) {
  EXPECT_EQ(play(200, lease("", "5")), kGetLease);
  EXPECT_EQ(play(409), kUpdateLease);
  EXPECT_FALSE(election_.leads(now_));
  EXPECT_NE(election_.problem(), "");
  EXPECT_EQ(play(200, lease("other", "6")), kGetLease);
  EXPECT_EQ(election_.problem(), "");
}

TEST_F(LeaderElectionTest, StopsAtOnceIfAnotherProcessHoldsTheLease) {
  become_leader();
  EXPECT_NE(play(200, lease("other", "6")), "");
  EXPECT_FALSE(election_.leads(now_));
}

TEST_F(LeaderElectionTest, ReleasesTheLease) {
  become_leader();
  election_.release(now_);
  EXPECT_FALSE(election_.released(now_));
  EXPECT_EQ(play(200, lease("me", "5")), kGetLease);
  EXPECT_EQ(play(200), kUpdateLease);
  EXPECT_THAT(last_.body, HasSubstr(R"("holderIdentity":"","leaseDurationSeconds":1,)"));
  EXPECT_TRUE(election_.released(now_));
  EXPECT_FALSE(election_.leads(now_));
  EXPECT_EQ(play(200), "");
}

TEST_F(LeaderElectionTest, ReleasesTheLeaseAfterARenewalThatIsUnderWay) {
  become_leader();
  EXPECT_NE(play(200, lease("me", "5")), "");
  now_ = std::max(now_, *election_.due());
  ASSERT_TRUE(election_.next(now_));
  election_.release(now_);
  election_.answered("lease", {200, "", ""}, kStatusAnswer, std::nullopt, now_);
  EXPECT_FALSE(election_.released(now_));
  EXPECT_NE(play(200, lease("me", "6")), "");
  EXPECT_NE(play(200), "");
  EXPECT_THAT(last_.body, HasSubstr(R"("holderIdentity":"")"));
  EXPECT_TRUE(election_.released(now_));
}

TEST_F(LeaderElectionTest, HasNothingToReleaseIfItDoesNotLead) {
  EXPECT_NE(play(200, lease("other", "6")), "");
  election_.release(now_);
  EXPECT_TRUE(election_.released(now_));
  EXPECT_EQ(play(200), "");
}

TEST_F(LeaderElectionTest, HasNothingToReleaseAfterItsTime) {
  become_leader();
  const MonotonicTime until = *election_.leads_until();
  election_.release(now_);
  while (!election_.released(now_) && now_ <= until) play(0);
  EXPECT_LE(now_, until) << "without an answer";
  EXPECT_TRUE(election_.released(now_));
  EXPECT_EQ(play(200), "");
  EXPECT_FALSE(election_.due());
}

TEST_F(LeaderElectionTest, RefusesALeaseThatCannotBeRead) {
  for (const char* body : {"", "[]", "{}", R"({"metadata":{}})",
                           R"({"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":1}})"}) {
    EXPECT_EQ(play(200, body), kGetLease) << body;
    EXPECT_NE(election_.problem(), "") << body;
  }
}

// A server that is slow, refuses, and loses answers of changes that it made; processes that stop,
// and whose clocks are set by hours all the time.
class Candidate {
 public:
  Candidate(const std::string& identity, std::mt19937& dice)
      : identity_(identity),
        dice_(dice),
        election_(
            lease_of(identity), [this] { return kNoon + std::int64_t{roll(36'000)} * 1'000'003; },
            [this] { return std::uniform_real_distribution<double>(0, 1)(dice_); }) {}

  struct Server {
    std::string holder;
    std::string renewed;
    int version = 0;  // 0: there is no Lease
  };

  void step(MonotonicTime now, Server& server) {
    if (now < stopped_until_) return;
    if (roll(2000) == 0) stopped_until_ = now + seconds(roll(300));
    if (request_) {
      if (now >= applied_at_) apply(server);
      if (now < answered_at_) return;
      election_.answered("lease", {code_, "", ""}, body_,
                         lost_ ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now);
      request_.reset();
    }
    request_ = election_.next(now);
    if (!request_) return;
    applied_at_ = now + milliseconds(roll(10'000));
    answered_at_ = applied_at_ + milliseconds(roll(20'000));
    is_applied_ = false;
    lost_ = roll(4) == 0;
  }
  [[nodiscard]] bool leads(MonotonicTime now) const { return election_.leads(now); }

 private:
  static constexpr std::int64_t kNoon = 1'764'072'000'000'000;
  int roll(int sides) { return std::uniform_int_distribution<int>(0, sides - 1)(dice_); }
  void apply(Server& server) {
    if (std::exchange(is_applied_, true)) return;
    const kubernetes::OutgoingRequest& http = request_->http;
    body_ = kStatusAnswer;
    code_ = 500;
    if (roll(10) == 0) return;
    if (http.method == "GET") {
      code_ = server.version == 0 ? 404 : 200;
      body_ = code_ == 404
                  ? kNoLease
                  : lease(server.holder, std::to_string(server.version), 137, server.renewed);
      return;
    }
    const std::string version = fmt::format(R"("resourceVersion":"{}")", server.version);
    const bool fits =
        http.method == "POST" ? server.version == 0 : http.body.find(version) != std::string::npos;
    code_ = fits ? 200 : 409;
    if (!fits) return;
    ++server.version;
    server.holder = identity_;
    constexpr std::string_view kRenewed = R"("renewTime":")";
    const auto time = http.body.find(kRenewed) + kRenewed.size();
    server.renewed = http.body.substr(time, http.body.find('"', time) - time);
  }

  const std::string identity_;
  std::mt19937& dice_;
  LeaderElection election_;
  std::optional<KeyedRequest> request_;
  MonotonicTime applied_at_{};
  MonotonicTime answered_at_{};
  MonotonicTime stopped_until_{};
  bool is_applied_ = false;
  bool lost_ = false;
  int code_ = 0;
  std::string body_;
};

TEST(LeaderElection, NeverHasTwoLeaders) {
  int led = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 dice(seed);
    Candidate::Server server;
    std::array<std::unique_ptr<Candidate>, 3> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = std::make_unique<Candidate>(fmt::format("p{}", i), dice);
    }
    MonotonicTime now = from_ns(1'000'000'000'000);
    for (int i = 0; i < 20'000; ++i) {
      now += milliseconds(500);
      int leaders = 0;
      for (const auto& each : all) {
        each->step(now, server);
        leaders += each->leads(now) ? 1 : 0;
      }
      ASSERT_LE(leaders, 1) << "seed " << seed << ", step " << i;
      led += leaders;
    }
  }
  EXPECT_GT(led, 100'000) << "a leader most of the time";
}

}  // namespace
}  // namespace forestall::cluster
