// SPDX-License-Identifier: Apache-2.0
// Keeps a copy of a list of the API server current: one list, then watches that resume from the
// last resource version (kubernetes.io/docs/reference/using-api/api-concepts). A state machine
// without I/O: it returns which request comes next and takes the bytes of the answer, with the
// time.
//
// The server is not trusted. Whatever it sends, memory stays bounded, requests are not repeated
// without a delay, and the objects of the last complete list remain until a later one is complete.
//
// All pages of a list are of the state of the first one. If the server no longer has that, or if
// the pages take longer than a list may, the next list is without pages: else a cluster might be
// too large to ever be listed. If that one fails, pages follow again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "kubernetes/api_status.h"
#include "kubernetes/backoff.h"
#include "text/list_splitter.h"

namespace forestall::text {
class JsonValue;
}

namespace forestall::kubernetes {

enum class ChangeType : std::uint8_t { added, modified, deleted };

// Receives the objects. An error ends the request; after a delay everything is listed again.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  // A list begins. Objects of an earlier list that was not complete are void. An object may be
  // listed again, if the connection is lost in the middle of a page.
  virtual void list_begins() = 0;
  [[nodiscard]] virtual Result<void> listed(const text::JsonValue& object) = 0;
  // The list is complete: what is not on it does not exist.
  virtual void list_ends() = 0;
  [[nodiscard]] virtual Result<void> changed(ChangeType type, const text::JsonValue& object) = 0;
};

// The first lines of an HTTP answer, as far as they matter.
struct ResponseHead {
  int code = 0;
  std::string retry_after;  // header Retry-After; empty: none
  std::string date;         // header Date
};

// How the server is to list. The default is for the objects of one node, of which many clients
// have a list each.
struct ListLimits {
  // Without bytes. One page is short, and its server answers soon; the begin of a large list
  // without pages may take as long as the whole.
  Duration silence = std::chrono::seconds(30);
  Duration page_silence = std::chrono::seconds(30);
  Duration longest = std::chrono::seconds(120);
  // Each list has all changes until it begins; else it may be of the server's cache, and older.
  bool newest = false;
  // Objects of one answer; 0: all. REQUIRES: newest, because a page is never of the cache.
  int page = 0;
};

// How current the copy is.
struct ListWatchState {
  bool complete = false;   // a list was complete once
  bool connected = false;  // a watch is open, and the server has answered it
  // When the server last confirmed the copy: the begin of a list that is complete, or a line of
  // a watch.
  std::optional<MonotonicTime> confirmed;
  std::optional<MonotonicTime> listed;   // begin of the last list that was complete
  std::optional<MonotonicTime> listing;  // begin of the list under way
  std::string problem;  // why it is not current; empty: it is, or nothing was tried yet
  // Of the last request that ended: its verb, and the status that refused it; 0: none did.
  std::string_view verb = "list";
  int refused_code = 0;
  bool overdue = false;                   // it took too long
  Duration list_took = Duration::zero();  // the last list that was complete
  std::uint64_t lists = 0;                // begun
  std::uint64_t watches = 0;              // begun
  std::uint64_t failures = 0;             // requests that ended other than as planned
};

class ListWatch {
 public:
  // The API server stores no object of more than 1.5 MiB.
  static constexpr std::size_t kObjectBytesMax = std::size_t{4} << 20;
  // Bookmarks arrive about once a minute. If nothing arrives for longer, the connection is dead.
  static constexpr Duration kWatchSilence = std::chrono::seconds(100);
  // After what time the server is requested to end a watch: up to twice as long, chosen at random.
  static constexpr std::int64_t kWatchSeconds = 240;
  // A watch that lasted as long ended as planned, and the next one begins at once.
  static constexpr Duration kLasted = std::chrono::seconds(5);
  // So many watches in a row that failed: lists again. If the server refuses a watch for a reason
  // that may stay, it is one.
  static constexpr int kWatchFailuresMax = 5;
  // So many failures of one page: the list begins again.
  static constexpr int kPageFailuresMax = 4;

  // `path` is that of the list, such as "/api/v1/pods"; `field_selector` as the API has it, or
  // empty. `chance` returns numbers in [0, 1). `sink` outlives this.
  ListWatch(std::string path, const std::string& field_selector, ObjectSink& sink,
            std::function<double()> chance, ListLimits limits = {});
  ListWatch(const ListWatch&) = delete;
  ListWatch& operator=(const ListWatch&) = delete;

  // The path and query of the request to send now; nothing: none. Called when no request is under
  // way; then head(), body() and end() follow.
  [[nodiscard]] std::optional<std::string> next(MonotonicTime now);
  void head(const ResponseHead& head, MonotonicTime now);
  // False: the rest of the answer is of no use; the request can be cancelled, then end() follows.
  [[nodiscard]] bool body(std::string_view bytes, MonotonicTime now);
  // The request is over; `failure`: not by a complete HTTP answer.
  void end(const std::optional<Error>& failure, MonotonicTime now);
  // Whether the request under way takes too long: cancel it, then end_overdue() follows.
  [[nodiscard]] bool overdue(MonotonicTime now) const;
  void end_overdue(MonotonicTime now);
  // When next() or overdue() changes without an answer.
  [[nodiscard]] MonotonicTime due() const;
  [[nodiscard]] const ListWatchState& state() const { return state_; }
  // Ends the watch at its next bytes, then lists again.
  void list_again() { lists_again_ = true; }
  // Lists as soon as a request may begin. overdue() then ends the one under way, list or watch.
  void list_now();
  // Lists and watches under another path. REQUIRES: no list was complete.
  void set_path(std::string path);

 private:
  enum class Phase : std::uint8_t { idle, listing, watching };
  enum class Next : std::uint8_t { list, watch };

  [[nodiscard]] std::string list_query() const;
  [[nodiscard]] std::string watch_query(std::int64_t seconds) const;
  struct ListEnd {
    std::string version;
    std::string next_page;  // opaque; empty: it was the last one
  };

  void begin_page();
  void begin_sink();
  Result<void> take_listed(std::string_view text);
  Result<ListEnd> finish_page();
  Result<void> take_lines(std::string_view bytes, MonotonicTime now);
  Result<void> take_line(std::string_view line, MonotonicTime now);
  Result<void> take_event(std::string_view type, const text::JsonValue& object);
  void end_as_sent(Phase ended, const std::optional<Error>& failure, MonotonicTime now);
  void end_page(const std::optional<Error>& failure, MonotonicTime now);
  void end_list(MonotonicTime now);
  void page_failed(const ApiStatus* refused);
  void end_watch(const std::optional<Error>& failure, MonotonicTime now);
  void end_refused(const ApiStatus& refused, MonotonicTime now);
  void fail(const std::string& problem, Next next, Duration delay, MonotonicTime now);
  [[nodiscard]] bool was_refused() const { return head_.code != 0 && head_.code != 200; }
  void set_list_version();
  [[nodiscard]] bool is_paged() const { return limits_.page > 0 && !is_whole_; }
  // Before a page is requested again, or anything else.
  [[nodiscard]] Duration delay() {
    return (page_.empty() ? backoff_ : page_backoff_).next(chance_());
  }

  std::string path_;
  const std::string selector_;  // escaped
  ObjectSink& sink_;
  const std::function<double()> chance_;
  const ListLimits limits_;

  ListWatchState state_;
  Phase phase_ = Phase::idle;
  Next next_ = Next::list;
  MonotonicTime not_before_{};  // of the next request
  MonotonicTime begun_{};       // of the request under way
  MonotonicTime last_byte_{};
  Duration silence_max_{};
  Duration longest_{};
  Backoff backoff_;
  bool lists_again_ = false;     // by list_again()
  bool lists_now_ = false;       // by list_now(), while a request is under way
  int watch_failures_ = 0;       // in a row
  bool credentials_new_ = true;  // false: refused once since they were last accepted
  std::string version_;          // of the last object or list
  std::string list_version_;     // that a list must have at least; empty: the newest

  // Of the list under way, of which one page may be complete and the next one waits.
  std::string page_;            // the server's name of the next page; empty: the first one
  std::string pages_version_;   // of the first page
  MonotonicTime list_begun_{};  // of the first page's request
  bool sink_begun_ = false;
  int page_failures_ = 0;  // of the page under way
  Backoff page_backoff_;   // the same: some failures in hundreds of pages cost little time
  bool is_whole_ = false;  // without pages

  // Of the answer under way.
  ResponseHead head_;
  std::string text_;                  // of a refusal, or a line that is not complete
  std::optional<Error> damage_;       // what cannot be used
  std::optional<ApiStatus> refused_;  // by an ERROR event
  std::optional<text::ListSplitter> splitter_;
};

}  // namespace forestall::kubernetes
