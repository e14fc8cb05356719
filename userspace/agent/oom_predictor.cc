// SPDX-License-Identifier: Apache-2.0
#include "agent/oom_predictor.h"

#include <algorithm>
#include <utility>

#include "policy/oom_selection.h"

namespace forestall::agent {
namespace {

// Pause after a round, as a multiple of its length.
constexpr int kRestNear = 20;
constexpr int kRestFar = 10000;

// A line is near when the headroom is less than the threshold itself.
bool is_near_line(const Evidence& evidence) {
  return has_usage_line(evidence.threshold.signal) &&
         (evidence.met || evidence.available / 2 < evidence.limit.value());
}

// The kernel's OOM killer is at work, or about to be.
bool is_alarm(const Wake& wake) {
  return wake.source == WakeSource::oom_last_call || wake.source == WakeSource::oom_kill;
}

// The kernel's log has a pid but no start time.
bool same_process(const ProcessId& predicted, const ProcessId& seen) {
  return predicted.pid == seen.pid &&
         (seen.start_ticks == 0 || predicted.start_ticks == seen.start_ticks);
}

}  // namespace

Result<std::unique_ptr<OomPredictor>> OomPredictor::create(
    const kernel::CgroupTree& tree, std::unique_ptr<sources::ProcessSource> processes,
    const Clock& clock, const std::string& proc, const std::string& sys) {
  std::unique_ptr<OomPredictor> made(
      new OomPredictor(tree, std::move(processes), clock, proc, sys));
  made->thread_ = TRY(base::JobThread::create(
      "forestall-oom", [forecast = made.get()] { forecast->predict_all(); }));
  return made;
}

OomPredictor::OomPredictor(const kernel::CgroupTree& tree,
                           std::unique_ptr<sources::ProcessSource> processes, const Clock& clock,
                           const std::string& proc, const std::string& sys)
    : clock_(clock), processes_(std::move(processes)), reader_(tree, *processes_, proc, sys) {}

OomPredictor::~OomPredictor() = default;

// The domain whose last round was longest ago comes first.
std::vector<OomPredictor::Domain> OomPredictor::domains_of(const Observation& observation) const {
  std::vector<Domain> domains{{CgroupId{}, "/"}};
  if (observation.pods) domains.push_back({observation.pods->id, observation.pods->path});
  for (const CgroupSample& each : observation.watched) domains.push_back({each.id, each.path});
  std::ranges::stable_sort(domains, {},
                           [&](const Domain& domain) { return tried_at(domain.cgroup); });
  return domains;
}

void OomPredictor::evaluated(const Observation& observation, const Decision& decision) {
  const bool alarm = is_alarm(observation.wake);
  const bool near = std::ranges::any_of(decision.evidence, is_near_line);
  const Duration rest = length_ * (alarm || near ? kRestNear : kRestFar);
  const bool early = running_ || (ended_ && clock_.now() < *ended_ + rest);
  // Far from every line, a later evaluation will do.
  if (early && !alarm && !near) return;
  std::vector<Domain> domains = domains_of(observation);
  const auto far = std::ranges::stable_partition(domains, [&](const Domain& domain) {
    return std::ranges::any_of(decision.evidence, [&](const Evidence& evidence) {
      return evidence.cgroup == domain.cgroup && is_near_line(evidence);
    });
  });
  // Near some lines, only their domains are predicted.
  if (near && !alarm) domains.erase(far.begin(), far.end());
  if (domains.size() > kRoundMax) domains.resize(kRoundMax);
  if (domains.empty()) return;
  request_round(std::move(domains), rest);
}

void OomPredictor::request_round(std::vector<Domain> domains, Duration rest) {
  wanted_ = std::move(domains);
  due_ = ended_ ? *ended_ + rest : clock_.now();
  time_passed();
}

std::optional<MonotonicTime> OomPredictor::next_due() const {
  return running_ ? std::nullopt : due_;
}

void OomPredictor::time_passed() {
  if (!running_ && due_ && *due_ <= clock_.now()) start();
}

void OomPredictor::start() {
  round_ = std::exchange(wanted_, {});
  due_.reset();
  running_ = thread_->start();
  for (const Domain& domain : round_) {
    Kept& kept = kept_[domain.cgroup];
    kept.path = domain.path;
    kept.tried = clock_.now();
  }
  forget_oldest();
}

std::vector<OomPredictor::Answer> OomPredictor::collect() {
  std::vector<Answer> answers;
  if (!thread_->finish()) return answers;
  running_ = false;
  ended_ = round_ended_;
  length_ = round_ended_ - round_began_;
  for (const Found& each : found_) {
    const Prediction& made = each.prediction;
    answers.push_back({each.domain.path, made.verdict, made.victim, made.order, made.order_problem,
                       made.ended - made.began});
    keep(each);
  }
  // A request made during the round waits for its pause as well.
  if (due_) due_ = *ended_ + length_ * kRestNear;
  time_passed();
  return answers;
}

void OomPredictor::keep(const Found& found) {
  const auto kept = kept_.find(found.domain.cgroup);
  if (kept == kept_.end()) return;
  auto& predictions = kept->second.predictions;
  predictions[1] = std::move(predictions[0]);
  predictions[0] = found.prediction;
}

void OomPredictor::forget_oldest() {
  while (kept_.size() > kKeptMax) {
    kept_.erase(
        std::ranges::min_element(kept_, {}, [](const auto& each) { return each.second.tried; }));
  }
}

MonotonicTime OomPredictor::tried_at(CgroupId cgroup) const {
  const auto found = kept_.find(cgroup);
  return found == kept_.end() ? MonotonicTime() : found->second.tried;
}

OomPredictor::Kept* OomPredictor::find(const OomKillEvent& kill) {
  if (kill.constraint == Constraint::none) {
    const auto node = kept_.find(CgroupId{});
    return node == kept_.end() ? nullptr : &node->second;
  }
  if (kill.constraint != Constraint::memcg) return nullptr;
  const auto found = std::ranges::find_if(kept_, [&](const auto& each) {
    if (each.first.inode == 0) return false;
    return kill.domain.inode != 0 ? each.first == kill.domain
                                  : each.second.path == kill.domain_path;
  });
  return found == kept_.end() ? nullptr : &found->second;
}

std::optional<OomForecast> OomPredictor::of(const OomKillEvent& kill) {
  Kept* kept = find(kill);
  if (kept == nullptr) return std::nullopt;
  for (std::optional<Prediction>& each : kept->predictions) {
    if (!each || each->ended > kill.at) continue;
    OomForecast forecast{each->began, each->verdict, each->victim, false};
    const auto is_it = [&](const ProcessId& one) { return same_process(one, kill.victim); };
    forecast.right =
        (each->victim && is_it(*each->victim)) || std::ranges::any_of(each->also, is_it);
    const bool over = std::exchange(each->used, true);
    // A process that dies with the victim is reported after it, and was predicted as well.
    if (over && !forecast.right) return std::nullopt;
    return forecast;
  }
  return std::nullopt;
}

void OomPredictor::predict_all() {
  found_.clear();
  round_began_ = clock_.now();
  for (const Domain& domain : round_) {
    Prediction prediction;
    prediction.began = clock_.now();
    const auto read = domain.cgroup.inode == 0 ? reader_.read_node(scene_)
                                               : reader_.read_memcg(domain.path, scene_);
    // A cgroup without a limit of its own, or a removed one, cannot run out.
    if (!read.ok() || scene_.domain.cgroup != domain.cgroup) continue;
    predict_scene(prediction);
    prediction.ended = clock_.now();
    found_.push_back({domain, std::move(prediction)});
  }
  round_ended_ = clock_.now();
}

// The kernel breaks ties in the order of its walk. Where that order cannot be read, the pid
// decides.
void OomPredictor::order_ties(Prediction& prediction) {
  const auto tied = policy::tied_for_first(scene_);
  if (tied.empty()) return;
  const auto known = sources::order_ties(*processes_, scene_, tied);
  prediction.order = known && *known ? TieOrder::kernel : TieOrder::pid;
  if (!known) prediction.order_problem = known.error().text();
}

void OomPredictor::predict_scene(Prediction& prediction) {
  order_ties(prediction);
  const OomPrediction predicted = policy::predict(scene_);
  prediction.verdict = predicted.verdict;
  if (predicted.victim) prediction.victim = scene_.processes[predicted.victim->process].id;
  for (const std::size_t index : predicted.also) {
    if (prediction.also.size() == kAlsoMax) break;
    prediction.also.push_back(scene_.processes[index].id);
  }
}

}  // namespace forestall::agent
