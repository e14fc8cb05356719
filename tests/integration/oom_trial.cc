// SPDX-License-Identifier: Apache-2.0
#include "integration/oom_trial.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "kernel/task_scan.h"
#include "policy/badness.h"
#include "policy/oom_selection.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

constexpr std::int64_t kPage = 4096;
// Less than any process of a forest has, so that in most cases one step causes one kill.
constexpr std::int64_t kStep = 16;
// The filler's own pages that may be new between a prediction and the kill, such as those that it
// shared with the test until it wrote to them.
constexpr Pages kFillerGrowth = 64;
// Number of kills in a row for which the order of equals is read in advance.
constexpr int kForeseen = 16;

template <typename T>
T need(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
  return std::move(result).value();
}

void need(const Result<void>& result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
}

std::unique_ptr<sources::ProcessSource> open_source(OomForecast::Path path,
                                                    const kernel::CgroupTree& tree,
                                                    std::string& counting) {
  if (path == OomForecast::Path::proc) return need(sources::proc_process_source(tree));
  auto scan = need(kernel::TaskScan::load());
  const kernel::Calibration& found = scan->calibration();
  counting = fmt::format("{}{} ({})", to_string(found.counting), found.proven ? "" : ", unproven",
                         found.evidence);
  return sources::bpf_process_source(std::move(scan));
}

const char* limit_file() {
  return mounts().v1 ? "memory.limit_in_bytes" : "memory.max";
}

const char* swap_limit_file() {
  return mounts().v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max";
}

void remove(OomScene& scene, const std::vector<pid_t>& pids) {
  std::erase_if(scene.processes, [&](const ProcessSample& each) {
    return std::find(pids.begin(), pids.end(), each.id.pid) != pids.end();
  });
}

std::string list(const std::vector<pid_t>& pids) {
  return fmt::format("[{}]", fmt::join(pids, " "));
}

}  // namespace

std::int64_t meminfo_pages(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word, unit;
  for (std::int64_t value = 0; file >> word >> value; std::getline(file, unit)) {
    if (word == key + ":") return value * 1024 / kPage;
  }
  throw std::runtime_error("/proc/meminfo without " + key);
}

OomForecast::OomForecast(Path path, Pages slack)
    : slack_(slack),
      tree_(need(kernel::CgroupTree::discover())),
      source_(open_source(path, tree_, counting_)),
      reader_(std::make_unique<sources::OomSceneReader>(tree_, *source_)) {
  // Sums, or the plain atomics of kernels before 6.2, which have a single reading.
  scores_by_proc_figures_ =
      counting_.starts_with("summed") || counting_.find("atomics") != std::string::npos;
}

void OomForecast::read_node() {
  need(reader_->read_node(scene_));
}

void OomForecast::read_memcg(const std::string& path) {
  need(reader_->read_memcg(path, scene_));
}

const OomPrediction& OomForecast::predict() {
  const std::vector<std::size_t> tied = policy::tied_for_first(scene_);
  order_known_ = tied.empty() || need(sources::order_ties(*source_, scene_, tied));
  prediction_ = policy::predict(scene_);
  learn_orders();
  return prediction_;
}

// One step may kill several processes, and the order of dead processes can no longer be read.
void OomForecast::learn_orders() {
  OomScene rest = scene_;
  for (foreseen_ = 1; foreseen_ < kForeseen; ++foreseen_) {
    const OomPrediction prediction = policy::predict(rest);
    if (!prediction.victim) return;
    std::vector<pid_t> dead{rest.processes[prediction.victim->process].id.pid};
    for (const std::size_t each : prediction.also) dead.push_back(rest.processes[each].id.pid);
    remove(rest, dead);
    const std::vector<std::size_t> tied = policy::tied_for_first(rest);
    if (tied.empty()) continue;
    if (!need(sources::order_ties(*source_, rest, tied))) return;
    for (const std::size_t each : tied) {
      for (ProcessSample& known : scene_.processes) {
        if (known.id == rest.processes[each].id) known.order = rest.processes[each].order;
      }
    }
  }
}

const OomPrediction& OomForecast::predict_next() {
  order_known_ = --foreseen_ > 0;
  prediction_ = policy::predict(scene_);
  return prediction_;
}

ProcessSample* OomForecast::choosable(pid_t pid, Pages growth) {
  if (!prediction_.victim) return nullptr;
  for (ProcessSample& each : scene_.processes) {
    const auto points = policy::badness(each, scene_.domain.total_pages);
    if (each.id.pid == pid && points && *points + slack_ + growth >= prediction_.victim->points) {
      return &each;
    }
  }
  return nullptr;
}

bool OomForecast::may_choose(pid_t pid, Pages growth) {
  return choosable(pid, growth) != nullptr;
}

bool OomForecast::adopt(pid_t pid) {
  ProcessSample* chosen = choosable(pid);
  if (chosen == nullptr) return false;
  const auto points = policy::badness(*chosen, scene_.domain.total_pages);
  chosen->memory.anon += prediction_.victim->points - *points + 1;
  prediction_ = policy::predict(scene_);
  return pid_of(prediction_.victim->process) == pid;
}

void OomForecast::bury(const std::vector<pid_t>& pids) {
  remove(scene_, pids);
}

pid_t OomForecast::pid_of(std::size_t process) const {
  return scene_.processes[process].id.pid;
}

pid_t OomForecast::victim() const {
  return prediction_.victim ? pid_of(prediction_.victim->process) : 0;
}

std::vector<pid_t> OomForecast::expected_dead() const {
  std::vector<pid_t> pids;
  if (prediction_.victim) pids.push_back(pid_of(prediction_.victim->process));
  for (const std::size_t each : prediction_.also) pids.push_back(pid_of(each));
  return pids;
}

std::string OomForecast::expected_group() const {
  if (!prediction_.group) return "";
  for (const OomCgroup& each : scene_.cgroups) {
    if (each.id == *prediction_.group) return each.path;
  }
  return "(a group that is not in the scene)";
}

std::string OomForecast::table() const {
  const OomDomain& domain = scene_.domain;
  std::string text = fmt::format(
      "domain {} {} total_pages {} by {} {}{}\nprediction {} victim {} runner-up {}{} group '{}' "
      "dead "
      "{}\n",
      to_string(domain.constraint), domain.path, domain.total_pages, source_->name(), counting_,
      order_known_ ? "" : ", order of equals unknown", to_string(prediction_.verdict), victim(),
      prediction_.runner_up ? pid_of(prediction_.runner_up->process) : 0,
      prediction_.tied ? " tied" : "", expected_group(), list(expected_dead()));
  text += "cgroups in walk order:\n";
  for (const OomCgroup& each : scene_.cgroups) {
    text += fmt::format("  {} {}{}\n", each.id.inode, each.path, each.oom_group ? " whole" : "");
  }
  text += "pid cgroup file anon shmem swap tables adj points unkillable flags order mm comm\n";
  for (const ProcessSample& each : scene_.processes) {
    const auto points = policy::badness(each, domain.total_pages);
    text += fmt::format("  {} {} {} {} {} {} {} {} {} {} {}{}{}{} {} {:x} {}\n", each.id.pid,
                        each.cgroup.inode, each.memory.file, each.memory.anon, each.memory.shmem,
                        each.memory.swap, each.memory.page_tables, each.oom_score_adj,
                        points ? std::to_string(*points) : "-", to_string(each.unkillable),
                        each.oom_victim ? "v" : "-", each.oom_victim_reaped ? "r" : "-",
                        each.dying ? "d" : "-", each.oom_origin ? "o" : "-", each.order,
                        each.memory_id, each.name());
  }
  return text;
}

OomTrials::OomTrials(ProcessForest& forest, OomForecast& forecast, std::uint64_t seed)
    : forest_(forest), forecast_(forecast), dice_(seed) {}

std::string OomTrials::any_path() {
  const auto left = forest_.alive();
  std::vector<std::string> homes;
  for (const ForestProcess& each : forest_.processes()) {
    const bool alive = std::find(left.begin(), left.end(), each.pid) != left.end();
    if (alive && each.oom_score_adj != kOomScoreAdjMin) homes.push_back(each.path);
  }
  if (homes.empty() || dice_.one_in(30)) {
    return forest_.paths()[dice_.below(forest_.paths().size())];
  }
  std::string path = homes[dice_.below(homes.size())];
  while (path != forest_.root() && !dice_.one_in(3)) path.resize(path.rfind('/'));
  return path;
}

bool OomTrials::used_up(int reserve) const {
  const auto left = forest_.alive();
  return std::count_if(forest_.processes().begin(), forest_.processes().end(),
                       [&](const ForestProcess& each) {
                         return each.oom_score_adj != kOomScoreAdjMin &&
                                std::find(left.begin(), left.end(), each.pid) != left.end();
                       }) <= reserve;
}

void OomTrials::join_below(const std::string& path) {
  std::vector<std::string> homes;
  for (const std::string& each : forest_.homes()) {
    if (each == path || each.starts_with(path + "/")) homes.push_back(each);
  }
  filler_->join(forest_.groups(), homes[dice_.below(homes.size())]);
}

std::string OomTrials::fill_memcg(const std::string& path) {
  const ScratchCgroup& groups = forest_.groups();
  join_below(path);
  const Bytes usage = groups.usage(path);
  const std::int64_t margin = dice_.between(64, 256);
  groups.limit(path, usage + Bytes{margin * kPage});
  limit_swap(path);
  forecast_.read_memcg(path);
  forecast_.predict();
  // An unprotected filler may be the victim: such an OOM proves nothing.
  const bool spare = forecast_.may_choose(filler_->pid(), kFillerGrowth);
  // The kernel reclaims page cache of dead processes before it kills, so the margin is not exact.
  std::optional<int> filled = 0;
  while (!spare && filled == 0 && lines_.empty()) {
    filled = filler_->fill(kStep);
    collect();
  }
  std::string wrong = spare ? "" : judge(path, filled);
  if (swap_) groups.write(path, swap_limit_file(), mounts().v1 ? "-1" : "max");
  groups.write(path, limit_file(), mounts().v1 ? "-1" : "max");
  if (wrong.empty()) filler_->drop();  // otherwise it may be dead
  return wrong;
}

void OomTrials::limit_swap(const std::string& path) {
  if (!swap_) return;
  const ScratchCgroup& groups = forest_.groups();
  const char* usage = mounts().v1 ? "memory.memsw.usage_in_bytes" : "memory.swap.current";
  const std::int64_t limit = std::stoll(groups.read(path, usage)) + swap_->count;
  groups.write(path, swap_limit_file(), std::to_string(limit));
}

std::string OomTrials::lower_memcg(const std::string& path) {
  const ScratchCgroup& groups = forest_.groups();
  const std::int64_t usage = groups.usage(path).count / kPage;
  const std::int64_t above = usage + 4096;
  const std::int64_t below = std::max<std::int64_t>(1, usage - dice_.between(1, 600));
  groups.limit(path, {above * kPage});
  forecast_.read_memcg(path);
  // The kernel scales the scores by the new limit.
  forecast_.scene().domain.total_pages -= above - below;
  forecast_.predict();
  groups.limit(path, {below * kPage});
  collect();
  // Reclaim of page cache may have been enough.
  std::string wrong = lines_.empty() ? "" : judge(path, 0);
  groups.write(path, limit_file(), "max");
  return wrong;
}

std::string OomTrials::fill_node() {
  forecast_.read_node();
  forecast_.predict();
  std::optional<int> filled = 0;
  while (filled == 0 && lines_.empty()) {
    // In long strides while much is left, because an emulated machine is slow.
    const std::int64_t left = meminfo_pages("MemAvailable");
    filled = left > 32'768 ? filler_->hold(left - 24'576) : filler_->fill(left > 4096 ? 1024 : 256);
    collect();
  }
  return judge("", filled);
}

void OomTrials::collect() {
  add(log_.take());
}

// The kernel sends SIGKILL before it prints (mm/oom_kill.c __oom_kill_process()), and the task that
// runs the OOM killer need not be the filler. So a process may be dead and reaped, and its step
// over, before its line is in the log.
void OomTrials::add(std::vector<OomLine> lines) {
  std::erase_if(lines, [this](const OomLine& line) { return is_buried(line); });
  std::ranges::move(lines, std::back_inserter(lines_));
}

bool OomTrials::is_buried(const OomLine& line) const {
  const bool names_process =
      line.kind == OomLine::Kind::killed || line.kind == OomLine::Kind::chosen;
  return names_process && std::ranges::find(buried_, process_of(line.pid)) != buried_.end();
}

// Whether there is a line at the cursor, or the kernel prints one in time.
bool OomTrials::wait_for_line() {
  while (cursor_ == lines_.size()) {
    std::vector<OomLine> lines = log_.wait();
    if (lines.empty()) return false;
    add(std::move(lines));
  }
  return true;
}

// Each kill must be the one predicted from the scene without the processes that died before.
std::string OomTrials::judge(const std::string& domain, std::optional<int> filled) {
  std::string wrong;
  // An unprotected filler can be the second victim of a step, after the only other candidate: then
  // it is judged as any other. Its pipe is closed before its end can be waited for.
  if (!filled && !filler_->child().wait_exit()) wrong = fail("the filler does not answer");
  if (wrong.empty() && lines_.empty()) {
    // v1 memory.oom_control: a write fails; a page fault would wait.
    const bool disabled = forecast_.prediction().verdict == OomVerdict::disabled;
    if (!disabled || filled != ENOMEM) wrong = fail("the kernel printed nothing");
    ++tally_.nobodies;
  }
  for (cursor_ = 0; wrong.empty() && cursor_ < lines_.size();) {
    // What shares a victim's memory dies with it, and is not marked as a victim: the kernel may
    // choose it before it is dead (mm/oom_kill.c oom_evaluate_task()).
    if (is_buried(lines_[cursor_])) {
      ++cursor_;
      continue;
    }
    if (cursor_ > 0) forecast_.predict_next();
    wrong = judge_kill(domain);
  }
  if (wrong.empty()) {
    const auto others = forest_.ended();
    if (!others.empty()) wrong = fail("more have died: " + list(others));
  }
  lines_.clear();
  return wrong;
}

std::string OomTrials::judge_kill(const std::string& domain) {
  // A second kill in one step is judged afterwards, when the order of its equals is unknown.
  const bool doubted = cursor_ > 0 || !forecast_.order_known() || forecast_.slack() > 0;
  if (doubted && process_of(lines_[cursor_].pid) != forecast_.victim() &&
      forecast_.adopt(process_of(lines_[cursor_].pid))) {
    tally_.undecided += cursor_ == 0 ? 1 : 0;
  }
  const OomPrediction& prediction = forecast_.prediction();
  const std::vector<pid_t> expected = forecast_.expected_dead();
  const OomLine* line = &lines_[cursor_++];
  if (line->kind == OomLine::Kind::no_victim) {
    ++tally_.nobodies;
    return prediction.verdict == OomVerdict::no_victim ? "" : fail("the kernel found no victim");
  }
  ++tally_.ooms;
  if (expected.empty()) return fail("the kernel killed");
  if (line->kind == OomLine::Kind::chosen) {
    const char* constraint = domain.empty() ? "CONSTRAINT_NONE" : "CONSTRAINT_MEMCG";
    if (line->constraint != constraint || line->domain != domain) return fail("another domain");
    if (line->pid != expected.front()) return fail("the kernel chose another");
    if (!wait_for_line()) return fail("chosen, and not killed");
    line = &lines_[cursor_++];
  }
  if (line->kind != OomLine::Kind::killed || process_of(line->pid) != expected.front()) {
    return fail("the kernel killed another");
  }
  std::string group;
  const bool may_have_group = cursor_ < lines_.size() || !forecast_.expected_group().empty();
  if (may_have_group && wait_for_line() && lines_[cursor_].kind == OomLine::Kind::whole) {
    group = lines_[cursor_++].path;
  }
  if (group != forecast_.expected_group()) return fail("another group: '" + group + "'");
  const auto goes_along = [&](const OomLine& each) {
    return each.kind == OomLine::Kind::killed &&
           std::find(expected.begin(), expected.end(), process_of(each.pid)) != expected.end();
  };
  while (cursor_ < lines_.size() && goes_along(lines_[cursor_])) ++cursor_;
  const bool tied = prediction.tied;
  const std::string wrong = judge_dead(expected);
  if (!wrong.empty()) return wrong;
  ++tally_.matches;
  tally_.ties += tied ? 1 : 0;
  tally_.groups += group.empty() ? 0 : 1;
  forecast_.bury(expected);
  buried_.insert(buried_.end(), expected.begin(), expected.end());
  return "";
}

// If the leader has exited, "Killed process" names the first thread that has the memory.
pid_t OomTrials::process_of(pid_t thread) const {
  for (const ForestProcess& each : forest_.processes()) {
    if (std::find(each.tasks.begin(), each.tasks.end(), thread) != each.tasks.end()) {
      return each.pid;
    }
  }
  return thread;
}

std::string OomTrials::judge_dead(const std::vector<pid_t>& expected) {
  // The test can reap a vfork child only after its parent.
  std::vector<pid_t> order = expected;
  std::stable_partition(order.begin(), order.end(), [&](pid_t pid) {
    return std::any_of(forest_.processes().begin(), forest_.processes().end(),
                       [&](const ForestProcess& each) { return each.pid == pid; });
  });
  for (const pid_t pid : order) {
    if (pid == filler_->pid()) {
      if (!filler_->child().wait_exit()) return fail("the filler is not dead");
      filler_ = std::make_unique<Filler>();
      continue;
    }
    const auto left = forest_.alive();
    if (std::find(left.begin(), left.end(), pid) == left.end()) {
      return fail(fmt::format("{} is not of the forest", pid));
    }
    const std::optional<int> status = forest_.wait_end(pid);
    if (!status) return fail(fmt::format("{} is not dead", pid));
    if (!WIFSIGNALED(*status) || WTERMSIG(*status) != SIGKILL) {
      return fail(fmt::format("{} ended with status {:x}", pid, *status));
    }
  }
  return "";
}

std::string OomTrials::fail(const std::string& what) const {
  std::string text = what + "\n" + forecast_.table() + "the kernel printed:\n";
  for (const OomLine& line : lines_) text += "  " + line.text + "\n";
  return text + "the forest was made as:\n" + forest_.text();
}

}  // namespace forestall::test
