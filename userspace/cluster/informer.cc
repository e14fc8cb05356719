// SPDX-License-Identifier: Apache-2.0
#include "cluster/informer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace forestall::cluster {
namespace {

constexpr int kForbidden = 403;
constexpr int kMissing = 404;

}  // namespace

Informer::Informer(WatchedKind kind, kubernetes::HttpClient& client, const Clock& clock,
                   std::function<double()> chance)
    : kind_(std::move(kind)),
      clock_(clock),
      store_(kind_.kind, kind_.bytes_max),
      list_watch_(kind_.path, "", store_, std::move(chance), kind_.limits),
      watch_(client, list_watch_, clock) {}

void Informer::advance() {
  follow_failures();
  if (store_.needs_list()) list_watch_.list_again();
  watch_.advance();
}

// A server that lacks the kind's newer version may have the older one.
void Informer::follow_failures() {
  const kubernetes::ListWatchState& now = state();
  if (now.failures == failed_) return;
  failed_ = now.failures;
  if (now.complete || now.refused_code != kMissing) return;
  (old_ ? lacks_old_path_ : lacks_path_) = true;
  if (kind_.old_path.empty()) return;
  old_ = !old_;
  list_watch_.set_path(old_ ? kind_.old_path : kind_.path);
}

std::optional<MonotonicTime> Informer::confirmed() const {
  if (!state().complete) return std::nullopt;
  return state().confirmed;
}

bool Informer::current() const {
  const auto last = confirmed();
  if (!last) return false;
  const Duration age = clock_.now() - *last;
  if (age <= kCurrentLongest) return true;
  const Duration until_next = 2 * state().list_took + kListDelayLongest;
  return last == state().listed && age <= std::min(until_next, kListCurrentLongest);
}

bool Informer::listed_since(MonotonicTime time) const {
  return state().listed && *state().listed >= time;
}

void Informer::list_since(MonotonicTime time) {
  const bool lists = state().listing && *state().listing >= time;
  if (!lists && !listed_since(time)) list_watch_.list_now();
}

bool Informer::refused() const {
  const kubernetes::ListWatchState& now = state();
  if (now.complete || now.verb != "list") return false;
  if (now.refused_code == kForbidden) return true;
  return now.refused_code == kMissing && lacks_path_ && (kind_.old_path.empty() || lacks_old_path_);
}

std::string Informer::problem() const {
  const kubernetes::ListWatchState& now = state();
  const std::string& path = old_ ? kind_.old_path : kind_.path;
  if (!now.problem.empty()) return fmt::format("{} {}: {}", now.verb, path, now.problem);
  if (current()) return "";
  if (now.complete && now.confirmed == now.listed && now.list_took > kCurrentLongest) {
    return fmt::format("list {}: took {} s, and no watch has confirmed it", path,
                       now.list_took / std::chrono::seconds(1));
  }
  return fmt::format("{} {}: {}", now.complete ? "watch" : "list", path,
                     now.complete ? "no confirmation for 3 minutes" : "not complete yet");
}

std::string_view Informer::resource() const {
  return std::string_view(kind_.path).substr(kind_.path.rfind('/') + 1);
}

}  // namespace forestall::cluster
