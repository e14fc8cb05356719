// SPDX-License-Identifier: Apache-2.0
// The queries of a policy to Prometheus, for one plan: the token from its Secret, and then an
// instant query of each. A state machine without I/O.
//
// As in the descheduler a query that fails ends the plugins that use it, and no other. Otherwise
// than there, an answer takes at most kLongest, redirects are not followed, and all queries of a
// plan are sent before it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/prometheus_answer.h"
#include "cluster/request_source.h"
#include "kubernetes/access.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

struct PrometheusSettings {
  std::string url;
  std::string secret_namespace = {};
  std::string secret_name = {};  // of the token; empty: that of the service account
  // Its token and certificate authority.
  std::string account_directory = std::string(kubernetes::kServiceAccountDirectory);
  kubernetes::PemSource api_authority = {};  // where the directory has none
  std::string authority_file = {};           // in place of both; empty: not given
  // A token is not sent without encryption, and one that was removed is not used again.
  bool is_strict = false;
};

class PrometheusQueries final : public RequestSource {
 public:
  // The key in the Secret.
  static constexpr std::string_view kTokenKey = "prometheusAuthToken";
  static constexpr Duration kLongest = std::chrono::seconds(30);
  // Of the nodes of a large cluster, each with many labels.
  static constexpr std::size_t kAnswerBytesMax = std::size_t{64} << 20;

  // `wall_ns` returns CLOCK_REALTIME.
  PrometheusQueries(PrometheusSettings settings, std::vector<std::string> queries,
                    std::function<std::int64_t()> wall_ns);

  // Errors: `url` is not one of http or https, or it has more than a host, a port and a path.
  [[nodiscard]] static Result<void> check_url(std::string_view url);

  // Begins, in place of queries that were not complete.
  void begin(MonotonicTime now);
  void cancel();
  [[nodiscard]] bool done() const { return phase_ == QueryPhase::done; }
  // REQUIRES: done() after begin().
  void add_to(rebalance::Snapshot& snapshot) const;

  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;

 private:
  enum class QueryPhase : std::uint8_t { done, secret, queries };
  struct Query {
    std::string text;
    bool sent = false;
    bool posted = false;  // with POST, when it was sent last
    bool over = false;
    std::vector<PrometheusValue> values = {};
    std::string failure = {};  // why there are none; empty: there are
  };

  [[nodiscard]] bool is_clear() const;
  [[nodiscard]] Result<void> read_account_token();
  [[nodiscard]] kubernetes::PemSource authority() const;
  void take_secret(const kubernetes::ResponseHead& head, std::string_view body,
                   const std::optional<Error>& failure);
  void begin_queries();
  void fail(const std::string& problem);
  [[nodiscard]] kubernetes::OutgoingRequest request_of(Query& query) const;
  void take_answer(Query& query, const kubernetes::ResponseHead& head, std::string_view body,
                   const std::optional<Error>& failure);

  const PrometheusSettings settings_;
  const std::function<std::int64_t()> wall_ns_;
  std::vector<Query> queries_;
  QueryPhase phase_ = QueryPhase::done;
  bool sent_ = false;  // the request of the Secret
  bool gets_ = false;  // the server does not take POST
  std::string token_;  // of the Secret, as last read; or of the service account
  std::shared_ptr<const kubernetes::Access> server_;
  MonotonicTime begun_{};
  std::uint64_t run_ = 0;  // answers of earlier runs are void
};

}  // namespace forestall::cluster
