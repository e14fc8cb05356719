// SPDX-License-Identifier: Apache-2.0
#include "cluster/leader_election.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <tuple>
#include <utility>

#include "kubernetes/api_status.h"
#include "kubernetes/url.h"
#include "text/json_value.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

constexpr Duration kLeaseRequestLongest = std::chrono::seconds(10);
// client-go's JitterFactor of candidates.
constexpr double kCandidateJitter = 1.2;

// metav1.MicroTime.
std::string micro_time(std::int64_t wall_us) {
  constexpr std::int64_t kMicros = 1'000'000;
  const auto seconds = static_cast<std::time_t>(wall_us / kMicros);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "1970-01-01T00:00:00.000000Z";
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", parts, wall_us % kMicros);
}

}  // namespace

std::string LeaderElection::target() const {
  return fmt::format("/apis/coordination.k8s.io/v1/namespaces/{}/leases",
                     kubernetes::percent_encoded(options_.lease_namespace));
}

std::string LeaderElection::lease_body() const {
  const bool holds = seen_.holder == options_.identity;
  const std::string now = micro_time(wall_());
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("apiVersion", "coordination.k8s.io/v1");
  out.member("kind", "Lease");
  out.key("metadata");
  out.begin_object();
  out.member("name", options_.name);
  out.member("namespace", options_.lease_namespace);
  // The server refuses the change if another one came in between.
  if (!seen_.version.empty()) out.member("resourceVersion", seen_.version);
  out.end_object();
  out.key("spec");
  out.begin_object();
  out.member("holderIdentity", releases_ ? std::string() : options_.identity);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.lease).count();
  out.member("leaseDurationSeconds", releases_ ? std::int64_t{1} : std::int64_t{seconds});
  out.member("acquireTime", holds && !seen_.acquired.empty() ? seen_.acquired : now);
  out.member("renewTime", now);
  out.member("leaseTransitions", seen_.transitions + (holds || seen_.version.empty() ? 0 : 1));
  out.end_object();
  out.end_object();
  return std::move(out).take();
}

std::optional<KeyedRequest> LeaderElection::next(MonotonicTime now) {
  if (releases_ && !leads(now)) leads_until_.reset();
  if (sent_ || released(now) || now < not_before_) return std::nullopt;
  kubernetes::OutgoingRequest request;
  request.longest = std::min<Duration>(kLeaseRequestLongest, options_.renew);
  request.target = target();
  const bool creates = step_ == LeaseStep::write && seen_.version.empty();
  if (!creates) request.target += '/' + kubernetes::percent_encoded(options_.name);
  if (step_ == LeaseStep::write) {
    request.method = creates ? "POST" : "PUT";
    request.body = lease_body();
  }
  sent_ = true;
  sent_release_ = releases_ && step_ == LeaseStep::write;
  begun_ = now;
  return KeyedRequest{"lease", std::move(request)};
}

void LeaderElection::answered(std::string_view, const kubernetes::ResponseHead& head,
                              std::string_view body, const std::optional<Error>& failure,
                              MonotonicTime now) {
  sent_ = false;
  const bool accepted = !failure && head.code >= 200 && head.code < 300;
  if (accepted && step_ == LeaseStep::read) return read(body, now);
  if (accepted) {
    const Result<void> is_written = kubernetes::check_accepted(body);
    return is_written.ok() ? written(now)
                           : fail(kubernetes::bounded_text(is_written.error().text()), now);
  }
  if (failure) return fail(kubernetes::bounded_text(failure->text()), now);
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  if (step_ == LeaseStep::read && status.is_without("leases", options_.name)) {
    seen_ = {};
    return decide(now);
  }
  fail(status.text(), now);
}

void LeaderElection::fail(std::string problem, MonotonicTime now) {
  problem_ = std::move(problem);
  step_ = LeaseStep::read;
  not_before_ = now + std::min(backoff_.next(chance_()), options_.retry);
}

Result<LeaderElection::SeenLease> LeaderElection::parse(std::string_view body) {
  const auto document = TRY(text::JsonDocument::parse(body));
  const text::JsonValue root = document.root();
  SeenLease seen;
  const text::JsonValue metadata = TRY(root.at("metadata"));
  seen.version = TRY(metadata.text("resourceVersion"));
  if (seen.version.empty()) return error("the Lease has no resourceVersion");
  const auto spec = TRY(root.find("spec"));
  if (!spec) return seen;
  seen.holder = TRY(spec->text("holderIdentity"));
  seen.acquired = TRY(spec->text("acquireTime"));
  seen.renewed = TRY(spec->text("renewTime"));
  if (const auto found = TRY(spec->find("leaseDurationSeconds"))) {
    seen.seconds = TRY(found->integer());
  }
  if (const auto found = TRY(spec->find("leaseTransitions"))) {
    seen.transitions = TRY(found->integer());
  }
  return seen;
}

bool LeaderElection::SeenLease::has_record_of(const SeenLease& other) const {
  return std::tie(holder, acquired, renewed, seconds, transitions) ==
         std::tie(other.holder, other.acquired, other.renewed, other.seconds, other.transitions);
}

void LeaderElection::read(std::string_view body, MonotonicTime now) {
  auto parsed = parse(body);
  if (!parsed) return fail(kubernetes::bounded_text(parsed.error().text()), now);
  // As client-go: a change of the metadata renews nothing.
  if (seen_.version.empty() || !parsed->has_record_of(seen_)) seen_at_ = now;
  seen_ = *std::move(parsed);
  decide(now);
}

void LeaderElection::decide(MonotonicTime now) {
  problem_.clear();
  const bool is_other = !seen_.holder.empty() && seen_.holder != options_.identity;
  if (is_other) leads_until_.reset();
  if (releases_ && !leads_until_) return;
  // Its holder may have another duration, within bounds.
  constexpr std::int64_t kLongestSeconds = 3600;
  const Duration held = std::max<Duration>(
      options_.lease,
      std::chrono::seconds(std::clamp<std::int64_t>(seen_.seconds, 0, kLongestSeconds)));
  if (is_other && now - seen_at_ < held) {
    backoff_.reset();
    const double factor = 1 + kCandidateJitter * chance_();
    const auto delay =
        static_cast<Duration::rep>(static_cast<double>(options_.retry.count()) * factor);
    not_before_ = std::min(now + Duration(delay), seen_at_ + held);
    return;
  }
  step_ = LeaseStep::write;
  not_before_ = now;
}

void LeaderElection::written(MonotonicTime now) {
  problem_.clear();
  backoff_.reset();
  step_ = LeaseStep::read;
  if (sent_release_) {
    leads_until_.reset();
    return;
  }
  leads_until_ = begun_ + options_.renew;
  not_before_ = releases_ ? now : now + options_.retry;
}

void LeaderElection::release(MonotonicTime now) {
  releases_ = true;
  // A request under way ends first.
  if (!sent_) step_ = LeaseStep::read;
  not_before_ = now;
  backoff_.reset();
}

std::optional<MonotonicTime> LeaderElection::due() const {
  if (sent_ || (releases_ && !leads_until_)) return std::nullopt;
  return releases_ ? std::min(not_before_, *leads_until_) : not_before_;
}

}  // namespace forestall::cluster
