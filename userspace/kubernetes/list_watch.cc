// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/list_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kubernetes/retry_after.h"
#include "kubernetes/url.h"
#include "text/json_value.h"

namespace forestall::kubernetes {
namespace {

// Of the answer to a refused request.
constexpr std::size_t kRefusalBytesMax = std::size_t{16} << 10;
// Opaque text of the server that becomes part of a request; today a number of 20 digits.
constexpr std::size_t kVersionBytesMax = 256;
// The same; today JSON with the key of an object, in base64.
constexpr std::size_t kPageNameBytesMax = std::size_t{4} << 10;
constexpr int kGone = 410;  // etcd has compacted the version

Result<std::string> resource_version(const text::JsonValue& object) {
  const text::JsonValue metadata = TRY(object.at("metadata"));
  const std::string version = TRY(metadata.text("resourceVersion"));
  if (version.empty()) return metadata.wrong("'resourceVersion' is missing");
  if (version.size() > kVersionBytesMax) return metadata.wrong("'resourceVersion' is too long");
  return version;
}

std::optional<ChangeType> change_type(std::string_view text) {
  if (text == "ADDED") return ChangeType::added;
  if (text == "MODIFIED") return ChangeType::modified;
  if (text == "DELETED") return ChangeType::deleted;
  return std::nullopt;
}

// The list that the server no longer has, or does not have yet (etcd compacted it; another API
// server is ahead): only the newest one is certain to exist.
bool version_is_useless(const ApiStatus& refused) {
  return refused.code == kGone || refused.code == 400 || refused.code == 504;
}

// Whether a list may be answered though the watch is not: without the right to watch, for example.
// The API server's 404 for a kind that it does not have is plain text.
bool is_of_watch(const ApiStatus& refused) {
  constexpr int kNoSuchKind = 404;
  return refused.is_final() || refused.code == kGone || refused.code == kNoSuchKind;
}

}  // namespace

ListWatch::ListWatch(std::string path, const std::string& field_selector, ObjectSink& sink,
                     std::function<double()> chance, ListLimits limits)
    : path_(std::move(path)),
      selector_(field_selector.empty() ? ""
                                       : "fieldSelector=" + percent_encoded(field_selector) + '&'),
      sink_(sink),
      chance_(std::move(chance)),
      limits_(limits),
      list_version_(limits.newest ? "" : "0") {}

std::string ListWatch::list_query() const {
  std::string query = path_ + '?' + selector_;
  if (is_paged()) query += fmt::format("limit={}&", limits_.page);
  if (!page_.empty()) query += "continue=" + percent_encoded(page_);
  if (!list_version_.empty()) query += "resourceVersion=" + percent_encoded(list_version_);
  while (query.ends_with('&') || query.ends_with('?')) query.pop_back();
  return query;
}

std::string ListWatch::watch_query(std::int64_t seconds) const {
  return fmt::format("{}?{}watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
                     path_, selector_, percent_encoded(version_), seconds);
}

std::optional<std::string> ListWatch::next(MonotonicTime now) {
  if (phase_ != Phase::idle || now < not_before_) return std::nullopt;
  begun_ = last_byte_ = now;
  head_ = {};
  text_.clear();
  damage_.reset();
  refused_.reset();
  if (next_ == Next::list) {
    begin_page();
    return list_query();
  }
  phase_ = Phase::watching;
  ++state_.watches;
  const auto seconds = kWatchSeconds + static_cast<std::int64_t>(kWatchSeconds * chance_());
  silence_max_ = kWatchSilence;
  // For a server that does not end it.
  longest_ = std::chrono::seconds(seconds) + kWatchSilence;
  return watch_query(seconds);
}

void ListWatch::begin_page() {
  phase_ = Phase::listing;
  const bool is_first = page_.empty();
  if (is_first) {
    list_begun_ = begun_;
    state_.listing = begun_;
    ++state_.lists;
    sink_begun_ = false;
    page_failures_ = 0;
  }
  silence_max_ = is_paged() ? limits_.page_silence : limits_.silence;
  longest_ = list_begun_ + limits_.longest - begun_;
  const auto begins = [this, is_first] {
    if (is_first) begin_sink();
  };
  splitter_.emplace("items", kObjectBytesMax, begins,
                    [this](const text::ListItem& item) { return take_listed(item.text); });
}

void ListWatch::begin_sink() {
  sink_begun_ = true;
  sink_.list_begins();
}

void ListWatch::head(const ResponseHead& head, MonotonicTime now) {
  head_ = head;
  last_byte_ = now;
  // A watch without events is answered by its head alone.
  state_.connected = phase_ == Phase::watching && head.code == 200;
}

bool ListWatch::body(std::string_view bytes, MonotonicTime now) {
  last_byte_ = now;
  if (phase_ == Phase::idle || damage_ || refused_) return false;
  if (head_.code != 200) {
    text_ += bytes.substr(0, kRefusalBytesMax - std::min(kRefusalBytesMax, text_.size()));
    return text_.size() < kRefusalBytesMax;
  }
  const Result<void> taken =
      phase_ == Phase::listing ? splitter_->add(bytes) : take_lines(bytes, now);
  if (!taken) damage_ = taken.error();
  const bool ends = phase_ == Phase::watching && lists_again_;
  return !damage_ && !refused_ && !ends;
}

Result<void> ListWatch::take_listed(std::string_view text) {
  const text::JsonDocument document = TRY(text::JsonDocument::parse(text));
  return sink_.listed(document.root());
}

// Checks what surrounds the objects.
Result<ListWatch::ListEnd> ListWatch::finish_page() {
  TRY(splitter_->end());
  const text::JsonDocument document = TRY(text::JsonDocument::parse(splitter_->frame()));
  const text::JsonValue root = document.root();
  const std::string kind = TRY(root.text("kind"));
  if (!kind.ends_with("List")) return root.wrong(fmt::format("kind is '{}', not a list", kind));
  std::size_t strange = 0;
  const auto count = [&](const text::JsonValue& item) -> Result<void> {
    const bool passed = splitter_->found() && item.find("kind").ok();
    strange += passed ? 0 : 1;
    return {};
  };
  TRY(root.each_in("items", count));
  if (strange > 0) return root.wrong(fmt::format("{} of the items are not objects", strange));
  std::string version = TRY(resource_version(root));
  const text::JsonValue metadata = TRY(root.at("metadata"));
  std::string next_page = TRY(metadata.text("continue"));
  if (next_page.size() > kPageNameBytesMax) return root.wrong("'continue' is too long");
  if (!next_page.empty() && next_page == page_) return root.wrong("the server repeats a page");
  if (!sink_begun_) begin_sink();  // without items
  return ListEnd{std::move(version), std::move(next_page)};
}

Result<void> ListWatch::take_lines(std::string_view bytes, MonotonicTime now) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (text_.size() + part.size() > kObjectBytesMax) {
      return error(fmt::format("an event of more than {} bytes", kObjectBytesMax));
    }
    if (end == std::string_view::npos) {
      text_ += part;
      return {};
    }
    bytes.remove_prefix(end + 1);
    if (text_.empty()) {
      TRY(take_line(part, now));
    } else {
      text_ += part;
      const std::string line = std::exchange(text_, {});
      TRY(take_line(line, now));
    }
    if (refused_) return {};
  }
  return {};
}

Result<void> ListWatch::take_line(std::string_view line, MonotonicTime now) {
  const text::JsonDocument document = TRY(text::JsonDocument::parse(line));
  const text::JsonValue root = document.root();
  const std::string type = TRY(root.text("type"));
  const text::JsonValue object = TRY(root.at("object"));
  TRY(take_event(type, object.as_root()));
  if (refused_) return {};
  state_.confirmed = now;
  state_.problem.clear();
  watch_failures_ = 0;
  return {};
}

Result<void> ListWatch::take_event(std::string_view type, const text::JsonValue& object) {
  if (type == "ERROR") {
    refused_ = read_api_status(500, object);
    return {};
  }
  const auto change = change_type(type);
  // A type that this client does not have may be a change that it would miss.
  if (!change && type != "BOOKMARK") return error(fmt::format("an event of type '{}'", type));
  std::string version = TRY(resource_version(object));
  if (change) TRY(sink_.changed(*change, object));
  version_ = std::move(version);
  return {};
}

void ListWatch::list_now() {
  if (phase_ == Phase::idle) {
    next_ = Next::list;
    page_.clear();
    state_.listing.reset();
  } else {
    lists_now_ = true;
  }
}

void ListWatch::set_path(std::string path) {
  path_ = std::move(path);
  page_.clear();
}

void ListWatch::end(const std::optional<Error>& failure, MonotonicTime now) {
  const Phase ended = std::exchange(phase_, Phase::idle);
  state_.connected = false;
  if (std::exchange(lists_now_, false)) {
    if (ended == Phase::watching) set_list_version();
    next_ = Next::list;
    not_before_ = now;
    page_.clear();
  } else {
    end_as_sent(ended, failure, now);
  }
  if (page_.empty()) state_.listing.reset();
  splitter_.reset();
  text_ = {};
}

void ListWatch::end_as_sent(Phase ended, const std::optional<Error>& failure, MonotonicTime now) {
  state_.verb = ended == Phase::listing ? "list" : "watch";
  state_.refused_code = 0;
  state_.overdue = false;
  if (ended == Phase::listing) end_page(failure, now);
  if (ended == Phase::watching) end_watch(failure, now);
}

void ListWatch::end_overdue(MonotonicTime now) {
  const Duration took = now - list_begun_;
  const bool is_slow_list = phase_ == Phase::listing && took >= limits_.longest;
  const bool has_slow_pages = is_slow_list && !page_.empty();
  if (is_slow_list) page_.clear();
  const bool as_wanted = lists_now_;
  end(error(is_slow_list ? fmt::format("not complete after {} s", took / std::chrono::seconds(1))
                         : "the API server does not answer"),
      now);
  if (has_slow_pages) is_whole_ = true;
  state_.overdue = !as_wanted;
}

// A later list must not be older.
void ListWatch::set_list_version() {
  if (!limits_.newest) list_version_ = version_;
}

void ListWatch::end_page(const std::optional<Error>& failure, MonotonicTime now) {
  if (was_refused()) {
    const ApiStatus refused = parse_api_status(head_.code, text_);
    page_failed(&refused);
    return end_refused(refused, now);
  }
  if (failure && !damage_) {
    page_failed(nullptr);
    return fail(failure->text(), Next::list, delay(), now);
  }
  Result<ListEnd> ended = damage_ ? Result<ListEnd>(*damage_) : finish_page();
  if (!ended) {
    page_.clear();
    is_whole_ = false;
    return fail("the list cannot be used: " + ended.error().text(), Next::list, delay(), now);
  }
  if (page_.empty()) pages_version_ = ended->version;
  page_ = std::move(ended->next_page);
  page_failures_ = 0;
  page_backoff_.reset();
  not_before_ = now;
  if (page_.empty()) end_list(now);
}

// `refused`: null: there is no answer. A later page is requested again if it may have success; else
// the list begins again.
void ListWatch::page_failed(const ApiStatus* refused) {
  if (page_.empty()) {
    is_whole_ = false;
    return;
  }
  if (refused != nullptr && refused->code == kGone) is_whole_ = true;
  const bool stays = refused != nullptr && is_of_watch(*refused);
  if (stays || ++page_failures_ >= kPageFailuresMax) page_.clear();
}

void ListWatch::end_list(MonotonicTime now) {
  sink_.list_ends();
  lists_again_ = false;
  is_whole_ = false;
  version_ = std::move(pages_version_);
  set_list_version();
  credentials_new_ = true;
  watch_failures_ = 0;
  state_.complete = true;
  // Its pages may have been read right after the first request.
  state_.confirmed = state_.listed = list_begun_;
  state_.list_took = now - list_begun_;
  state_.problem.clear();
  next_ = Next::watch;
}

void ListWatch::end_watch(const std::optional<Error>& failure, MonotonicTime now) {
  set_list_version();
  if (damage_) {
    return fail("the watch cannot be used: " + damage_->text(), Next::list, delay(), now);
  }
  if (refused_) return end_refused(*refused_, now);
  if (was_refused()) return end_refused(parse_api_status(head_.code, text_), now);
  if (std::exchange(lists_again_, false)) {
    next_ = Next::list;
    not_before_ = now + delay();
    return;
  }
  if (now - begun_ >= kLasted) {
    backoff_.reset();
    credentials_new_ = true;
  }
  if (failure) return fail(failure->text(), Next::watch, delay(), now);
  if (!text_.empty()) {
    return fail("the watch ended within an event", Next::watch, delay(), now);
  }
  next_ = Next::watch;
  not_before_ = now;
  if (now - begun_ < kLasted) {
    not_before_ += delay();
  } else {
    state_.problem.clear();
  }
}

// A status other than 200, or an ERROR event.
void ListWatch::end_refused(const ApiStatus& refused, MonotonicTime now) {
  state_.refused_code = refused.code;
  // A server answers 500 to a list from a version that it cannot read.
  const bool of_list = next_ == Next::list && refused.code == 500;
  if (version_is_useless(refused) || of_list) list_version_.clear();
  Next next = next_;
  if (is_of_watch(refused)) next = Next::list;
  // A token is read again for each request, so the first 401 may be of the one before.
  if (refused.code == 401 && std::exchange(credentials_new_, false)) {
    return fail(refused.text(), next, Duration::zero(), now);
  }
  const auto wanted =
      refused.retry_after ? refused.retry_after : parse_retry_after(head_.retry_after, head_.date);
  fail(refused.text(), next, std::max(delay(), wanted.value_or(Duration::zero())), now);
}

void ListWatch::fail(const std::string& problem, Next next, Duration delay, MonotonicTime now) {
  ++state_.failures;
  state_.problem = bounded_text(problem);
  if (next == Next::watch && ++watch_failures_ >= kWatchFailuresMax) {
    watch_failures_ = 0;
    next = Next::list;
  }
  next_ = next;
  not_before_ = now + delay;
}

bool ListWatch::overdue(MonotonicTime now) const {
  return phase_ != Phase::idle && now >= due();
}

MonotonicTime ListWatch::due() const {
  if (phase_ == Phase::idle) return not_before_;
  if (lists_now_) return begun_;
  return std::min(last_byte_ + silence_max_, begun_ + longest_);
}

}  // namespace forestall::kubernetes
