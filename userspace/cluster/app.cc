// SPDX-License-Identifier: Apache-2.0
#include "cluster/app.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "cluster/successor.h"
#include "kubernetes/api_status.h"

namespace forestall::cluster {
namespace {

using exports::LogLevel;
using exports::LogLine;

// Half of terminationGracePeriodSeconds in scripts/deploy/kubernetes/base/daemonset.yaml.
constexpr Duration kWithdrawalLongest = std::chrono::seconds(5);

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// In [0, 1).
std::function<double()> random_chances() {
  return [engine = std::mt19937_64(random_number())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
}

}  // namespace

App::App(const AppOptions& options, const Clock& clock, exports::Log& log,
         std::unique_ptr<kubernetes::HttpClient> client)
    : clock_(clock),
      log_(log),
      daemon_set_(options.daemon_set),
      pods_(options.node),
      client_(std::move(client)),
      node_(*client_, options.node, clock, random_chances()),
      // A finished pod has no process, and finished pods of Jobs may be many.
      watch_("/api/v1/pods",
             "spec.nodeName=" + options.node + ",status.phase!=Succeeded,status.phase!=Failed",
             pods_, random_chances()),
      objects_(*client_, watch_, clock),
      writer_(options.socket, pods_, watch_.state(), clock, random_number(), random_chances()),
      evictions_(options.budgets, random_chances()),
      sender_(*client_, evictions_, clock, Evictions::kRequestsMax),
      reports_({options.node, options.socket, options.taint}, *client_, pods_, clock, log,
               random_chances),
      kills_(
          options.socket, clock, random_chances(),
          {.killed = [this](const KilledPod& pod) { killed(pod); },
           .killed_by_kernel = [this](const KernelKill& kill) { reports_.killed_by_kernel(kill); },
           .connected = [this] { writer_.list_again(); }}) {
  pods_.set_on_gone([this](std::string_view uid) { evictions_.gone(uid); });
}

Result<std::unique_ptr<App>> App::create(const AppOptions& options, const Clock& clock,
                                         exports::Log& log) {
  auto client = TRY(kubernetes::HttpClient::create(options.access));
  return std::unique_ptr<App>(new App(options, clock, log, std::move(client)));
}

void App::killed(const KilledPod& pod) {
  reports_.killed(pod);
  if (!evictions_.add(pod, clock_.now())) return;
  log_.write(
      LogLevel::info,
      LogLine("killed").field("pod", pod.pod_namespace + '/' + pod.name).field("uid", pod.uid));
}

Result<void> App::step(int stop_fd, Duration longest) {
  // A kill comes first: the kubelet starts the containers again within a second.
  kills_.advance();
  sender_.advance();
  objects_.advance();
  client_->advance();
  sender_.advance();
  objects_.advance();
  if (pods_.needs_node()) node_.advance();
  if (node_.exists()) pods_.confirm_node();
  writer_.advance();
  report();
  report_evictions();
  reports_.advance();
  if (const auto has_v1 = reports_.take_eviction_v1()) evictions_.set_v1(*has_v1);
  const Duration left = due() - clock_.now();
  std::vector<pollfd> fds;
  const auto [status, ranking] = reports_.poll();
  for (const pollfd& each :
       {pollfd{stop_fd, POLLIN, 0}, writer_.poll(), kills_.poll(), status, ranking}) {
    if (each.fd >= 0) fds.push_back(each);
  }
  return client_->wait(fds, std::clamp(left, Duration::zero(), longest));
}

// A rolling update replaces this process within seconds, and pressure may last longer.
Result<void> App::end(Duration longest) {
  const MonotonicTime end = clock_.now() + longest;
  if (daemon_set_.empty()) return withdraw(end);
  const auto why = why_withdraw(end);
  LogLine line("node");
  if (why && why->empty()) {
    log_.write(LogLevel::info, line.field("condition", "kept").field("for", daemon_set_));
    return {};
  }
  log_.write(LogLevel::info,
             line.field("condition", "removed").field("because", why ? *why : why.error().text()));
  return withdraw(end);
}

Result<std::string> App::why_withdraw(MonotonicTime end) {
  for (const kubernetes::OutgoingRequest& each : successor_requests(daemon_set_)) {
    const auto answer = TRY(fetch(each, end));
    if (std::string why = why_no_successor(answer.head().code, answer.text()); !why.empty()) {
      return why;
    }
  }
  return std::string();
}

Result<kubernetes::AnswerCollector> App::fetch(const kubernetes::OutgoingRequest& request,
                                               MonotonicTime end) {
  kubernetes::AnswerCollector answer;
  const auto id = TRY(client_->start(request, answer));
  while (!answer.over() && clock_.now() < end) {
    const auto waited = client_->wait({}, end - clock_.now());
    client_->advance();
    if (!waited) break;
  }
  if (!answer.over()) {
    client_->cancel(id);
    return error("the API server does not answer");
  }
  if (answer.failure()) return error(kubernetes::bounded_text(answer.failure()->text()));
  return answer;
}

Result<void> App::withdraw(MonotonicTime end) {
  reports_.withdraw();
  while (true) {
    client_->advance();
    if (reports_.advance_withdrawal()) return {};
    const MonotonicTime now = clock_.now();
    if (now >= end) return error("the API server has not accepted it in time");
    const MonotonicTime due = std::min(end, reports_.withdrawal_due().value_or(end));
    TRY(client_->wait({}, std::max(due - now, Duration::zero())));
  }
}

MonotonicTime App::due() const {
  MonotonicTime first = std::min(objects_.due(), writer_.due());
  if (const auto kills = kills_.due()) first = std::min(first, *kills);
  if (pods_.needs_node()) first = std::min(first, node_.due().value_or(first));
  if (const auto eviction = sender_.due()) first = std::min(first, *eviction);
  return std::min(first, reports_.due());
}

void App::report_evictions() {
  if (const std::uint64_t lost = kills_.lost(); lost != lost_kills_) {
    log_.write(LogLevel::warning, LogLine("kills")
                                      .field("lost_records", lost - lost_kills_)
                                      .field("effect", "pods of kills among them are not evicted"));
    lost_kills_ = lost;
  }
  for (const Evictions::Ended& each : evictions_.take_ended()) {
    const bool is_good = each.end <= EvictionEnd::gone;
    // The watch may report that the deletion has begun before the request is answered.
    if (each.end == EvictionEnd::evicted || each.end == EvictionEnd::gone) {
      reports_.evicted(each.pod);
    }
    log_.write(is_good ? LogLevel::info : LogLevel::warning,
               LogLine("eviction")
                   .field("pod", each.pod.pod_namespace + '/' + each.pod.name)
                   .field("uid", each.pod.uid)
                   .field("state", to_string(each.end)));
  }
  if (evictions_.problem() == eviction_problem_) return;
  eviction_problem_ = evictions_.problem();
  if (eviction_problem_.empty()) return;
  log_.write(LogLevel::warning, LogLine("eviction").field("problem", eviction_problem_));
}

// Each change once.
void App::report() {
  const kubernetes::ListWatchState& api = watch_.state();
  if (api.problem != api_problem_) {
    api_problem_ = api.problem;
    LogLine line("api");
    line.field("state", api.problem.empty() ? "current" : "not-current");
    if (!api.problem.empty()) line.field("problem", api.problem);
    log_.write(api.problem.empty() ? LogLevel::info : LogLevel::warning, line);
  }
  if (pods_.complete() && !was_complete_) {
    was_complete_ = true;
    log_.write(LogLevel::info, LogLine("pods").field("pods", pods_.size()));
  }
  report_pods();
  if (writer_.problem() != agent_problem_) {
    agent_problem_ = writer_.problem();
    LogLine line("agent");
    line.field("state", agent_problem_.empty() ? "has-the-pods" : "away");
    if (!agent_problem_.empty()) line.field("problem", agent_problem_);
    log_.write(agent_problem_.empty() ? LogLevel::info : LogLevel::warning, line);
  }
}

void App::report_pods() {
  if (node_.problem() != node_problem_) {
    node_problem_ = node_.problem();
    if (!node_problem_.empty()) {
      log_.write(LogLevel::error, LogLine("node")
                                      .field("problem", node_problem_)
                                      .field("effect", "the empty list of pods is not used"));
    }
  }
  if (pods_.unreadable_why() != unreadable_) {
    unreadable_ = pods_.unreadable_why();
    log_.write(LogLevel::warning, LogLine("pod-unreadable")
                                      .field("problem", unreadable_)
                                      .field("instead", "the agent infers its facts"));
  }
  if (pods_.shortened() == shortened_) return;
  shortened_ = pods_.shortened();
  log_.write(LogLevel::info,
             LogLine("pod-shortened")
                 .field("pod", shortened_)
                 .field("problem", "it has more containers, volumes or tolerations than are kept")
                 .field("kept", "priority, and requests and limits of the whole pod"));
}

Result<void> run_app(const AppOptions& options, exports::Log& log, int stop_fd) {
  const SystemClock clock;
  const auto app = TRY(App::create(options, clock, log));
  log.write(LogLevel::info, LogLine("start")
                                .field("node", options.node)
                                .field("server", options.access.server)
                                .field("socket", options.socket));
  signalfd_siginfo received{};
  while (::read(stop_fd, &received, sizeof received) != sizeof received) {
    TRY(app->step(stop_fd, std::chrono::hours(1)));
  }
  log.write(LogLevel::info, LogLine("stop"));
  if (const auto withdrawn = app->end(kWithdrawalLongest); !withdrawn) {
    log.write(LogLevel::warning,
              LogLine("node")
                  .field("problem", withdrawn.error().text())
                  .field("effect", "its condition and its taint may remain, as last reported"));
  }
  return {};
}

}  // namespace forestall::cluster
