// SPDX-License-Identifier: Apache-2.0
#include "top/terminal.h"

#include <langinfo.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// ncurses' function macros would replace our names.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <ncurses.h>
#include <term.h>
#undef lines
#undef columns

namespace forestall::top {
namespace {

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
// Time after ESC in which a key sequence may follow, in ms: enough locally and over ssh.
constexpr int kEscapePatience = 50;

// Data for the crash handler, prepared in advance: it may call only async-signal-safe functions.
struct {
  termios as_found{};
  std::array<char, 256> goodbye{};
  std::size_t length = 0;
  volatile sig_atomic_t armed = 0;
} rescue;

extern "C" void restore_and_die(int signal) {
  if (rescue.armed != 0) {
    rescue.armed = 0;
    (void)!::write(STDOUT_FILENO, rescue.goodbye.data(), rescue.length);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &rescue.as_found);
  }
  // SA_RESETHAND has restored the default action.
  ::raise(signal);
}

void prepare_rescue() {
  // Mouse off in both protocols, attributes off, cursor visible, main screen.
  std::string text = "\033[?1006l\033[?1002l\033[?1000l";
  for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    const char* sequence = ::tigetstr(name);
    // -1: not a string capability; null: not supported by this terminal.
    if (sequence != nullptr && sequence != reinterpret_cast<const char*>(-1)) text += sequence;
  }
  rescue.length = std::min(text.size(), rescue.goodbye.size());
  std::memcpy(rescue.goodbye.data(), text.data(), rescue.length);
}

void arm_rescue() {
  rescue.armed = 1;
  struct sigaction action {};
  action.sa_handler = restore_and_die;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int each : kCrashes) ::sigaction(each, &action, nullptr);
}

// A role's colors with 256 and 8 colors, and its attribute without colors.
struct Ink {
  short many;
  short few;
  attr_t without;
};

Ink ink_of(Role role) {
  switch (role) {
    case Role::plain: return {-1, -1, A_NORMAL};
    case Role::faint: return {245, -1, A_DIM};
    case Role::strong: return {-1, -1, A_BOLD};
    case Role::title: return {67, COLOR_CYAN, A_NORMAL};
    case Role::good: return {71, COLOR_GREEN, A_NORMAL};
    case Role::warned: return {172, COLOR_YELLOW, A_BOLD};
    case Role::bad: return {167, COLOR_RED, A_BOLD};
    case Role::accent: return {32, COLOR_CYAN, A_BOLD};
    case Role::bar_used: return {66, COLOR_CYAN, A_NORMAL};
    case Role::bar_cache: return {60, COLOR_BLUE, A_DIM};
    case Role::bar_free: return {240, -1, A_DIM};
    case Role::chart_some: return {172, COLOR_YELLOW, A_NORMAL};
    case Role::chart_full: return {167, COLOR_RED, A_BOLD};
  }
  return {-1, -1, A_NORMAL};
}

Input key(Input::Kind kind) {
  Input input;
  input.kind = kind;
  return input;
}

std::optional<Input> mouse() {
  MEVENT event{};
  if (::getmouse(&event) != OK) return std::nullopt;
  Input input;
  input.x = event.x;
  input.y = event.y;
  if ((event.bstate & BUTTON4_PRESSED) != 0) {
    input.kind = Input::Kind::wheel_up;
  } else if ((event.bstate & BUTTON5_PRESSED) != 0) {
    input.kind = Input::Kind::wheel_down;
  } else if ((event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)) != 0) {
    input.kind = Input::Kind::click;
  } else {
    return std::nullopt;
  }
  return input;
}

// Nothing: a key without a meaning.
std::optional<Input> function_key(wint_t code) {
  switch (code) {
    case KEY_UP: return key(Input::Kind::up);
    case KEY_DOWN: return key(Input::Kind::down);
    case KEY_PPAGE: return key(Input::Kind::page_up);
    case KEY_NPAGE: return key(Input::Kind::page_down);
    case KEY_HOME: return key(Input::Kind::home);
    case KEY_END: return key(Input::Kind::end);
    case KEY_ENTER: return key(Input::Kind::enter);
    case KEY_BACKSPACE: return key(Input::Kind::backspace);
    case KEY_RESIZE: return key(Input::Kind::resize);
    case KEY_MOUSE: return mouse();
    default: return std::nullopt;
  }
}

Input plain_key(wint_t code) {
  switch (code) {
    case L'\n':
    case L'\r': return key(Input::Kind::enter);
    case 0x1B: return key(Input::Kind::escape);
    case 0x7F:
    case L'\b': return key(Input::Kind::backspace);
    default: break;
  }
  Input input;
  input.character = static_cast<char32_t>(code);
  return input;
}

}  // namespace

bool Terminal::shows_unicode() {
  std::setlocale(LC_CTYPE, "");
  return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
}

Result<std::unique_ptr<Terminal>> Terminal::open(const TerminalSettings& settings) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    return error(
        "standard input and output are not a terminal; use --once to print one sample as text");
  }
  std::setlocale(LC_CTYPE, "");
  ::tcgetattr(STDIN_FILENO, &rescue.as_found);
  // Unlike initscr(), this returns an error if the terminal type is unknown.
  SCREEN* screen = ::newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    const char* name = std::getenv("TERM");
    return error(std::string("unknown terminal '") + (name == nullptr ? "" : name) +
                 "' (TERM); use --once to print one sample as text");
  }
  std::unique_ptr<Terminal> terminal(new Terminal(screen));
  prepare_rescue();
  arm_rescue();
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
  ::set_escdelay(kEscapePatience);
  if (settings.mouse) {
    // Report clicks at once, without waiting for a double click.
    ::mouseinterval(0);
    ::mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  }
  if (settings.colors) terminal->set_up_colors();
  return terminal;
}

Terminal::~Terminal() {
  ::endwin();
  rescue.armed = 0;
  ::delscreen(screen_);
}

void Terminal::set_up_colors() {
  if (::has_colors() == FALSE) return;
  ::start_color();
  ::use_default_colors();
  for (std::size_t i = 0; i < kRoles; ++i) {
    const Ink ink = ink_of(static_cast<Role>(i));
    ::init_pair(static_cast<short>(i + 1), COLORS >= 256 ? ink.many : ink.few, -1);
  }
  colors_ = true;
}

Size Terminal::size() const {
  return {getmaxx(stdscr), getmaxy(stdscr)};
}

int Terminal::fd() const {
  return STDIN_FILENO;
}

void Terminal::paint_cell(const Cell& cell) {
  const Ink ink = ink_of(cell.style.role);
  attr_t attributes = A_NORMAL;
  if (!colors_) attributes |= ink.without;
  // With few colors, faint text uses its attribute.
  if (colors_ && COLORS < 256 && ink.few == -1) attributes |= ink.without;
  if (cell.style.bold) attributes |= A_BOLD;
  if (cell.style.reverse) attributes |= A_REVERSE;
  const std::array<wchar_t, 2> text{static_cast<wchar_t>(cell.glyph), L'\0'};
  cchar_t glyph{};
  const auto pair = static_cast<short>(colors_ ? static_cast<int>(cell.style.role) + 1 : 0);
  ::setcchar(&glyph, text.data(), attributes, pair, nullptr);
  ::add_wch(&glyph);
}

void Terminal::paint(const Screen& screen) {
  ::werase(stdscr);
  for (int y = 0; y < screen.size().height; ++y) {
    ::wmove(stdscr, y, 0);
    for (int x = 0; x < screen.size().width; ++x) paint_cell(screen.at(x, y));
  }
  ::wrefresh(stdscr);
}

std::optional<Input> Terminal::next() {
  wint_t code = 0;
  while (true) {
    const int kind = ::get_wch(&code);
    if (kind == ERR) return std::nullopt;
    if (kind != KEY_CODE_YES) return plain_key(code);
    if (const auto input = function_key(code)) return input;
  }
}

}  // namespace forestall::top
