//! The present, and Python's `strftime` for it.

use web_time::{SystemTime, UNIX_EPOCH};

/// A moment in a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub unix_seconds: i64,
    /// Microseconds on top, below 1,000,000.
    pub microseconds: u32,
    /// How far the local time is ahead of UTC, in seconds.
    pub utc_offset_seconds: i32,
}

/// English names, as the C locale has them.
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Moment {
    /// The system's clock, in UTC.
    pub fn system() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            unix_seconds: since.as_secs().cast_signed(),
            microseconds: since.subsec_micros(),
            utc_offset_seconds: 0,
        }
    }

    /// The moment in the form of a `strftime` format, in the C locale; the local time has no zone name.
    ///
    /// # Errors
    /// The format has a directive that is not known, or ends with `%`.
    pub fn format(&self, format: &str) -> Result<String, String> {
        let t = Local::new(self);
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = chars.next();
            // A minus takes the padding away (an extension of the GNU C library that templates use).
            let pad = directive != Some('-');
            if !pad {
                directive = chars.next();
            }
            let number = |value: i64, width: usize| {
                if pad {
                    format!("{value:0width$}")
                } else {
                    value.to_string()
                }
            };
            let text = match directive {
                Some('Y') => t.year.to_string(),
                Some('C') => number(t.year.div_euclid(100), 2),
                Some('y') => number(t.year.rem_euclid(100), 2),
                Some('m') => number(t.month, 2),
                Some('d') => number(t.day, 2),
                Some('e') => {
                    if pad {
                        format!("{:2}", t.day)
                    } else {
                        t.day.to_string()
                    }
                }
                Some('H') => number(t.hour, 2),
                Some('k') => {
                    if pad {
                        format!("{:2}", t.hour)
                    } else {
                        t.hour.to_string()
                    }
                }
                Some('I') => number(t.hour12(), 2),
                Some('l') => {
                    if pad {
                        format!("{:2}", t.hour12())
                    } else {
                        t.hour12().to_string()
                    }
                }
                Some('M') => number(t.minute, 2),
                Some('S') => number(t.second, 2),
                Some('f') => format!("{:06}", self.microseconds),
                Some('j') => number(t.day_of_year, 3),
                Some('s') => self.unix_seconds.to_string(),
                Some('p') => if t.hour < 12 { "AM" } else { "PM" }.to_owned(),
                Some('P') => if t.hour < 12 { "am" } else { "pm" }.to_owned(),
                Some('A') => t.weekday_name().to_owned(),
                Some('a') => t.weekday_name()[..3].to_owned(),
                Some('B') => t.month_name().to_owned(),
                Some('b' | 'h') => t.month_name()[..3].to_owned(),
                Some('w') => t.weekday.to_string(),
                Some('u') => (if t.weekday == 0 { 7 } else { t.weekday }).to_string(),
                Some('U') => number((t.day_of_year + 6 - t.weekday) / 7, 2),
                Some('W') => number((t.day_of_year + 6 - (t.weekday + 6) % 7) / 7, 2),
                Some('G') => t.iso_week().0.to_string(),
                Some('g') => number(t.iso_week().0.rem_euclid(100), 2),
                Some('V') => number(t.iso_week().1, 2),
                Some('F') => self.format("%Y-%m-%d")?,
                Some('T' | 'X') => self.format("%H:%M:%S")?,
                Some('R') => self.format("%H:%M")?,
                Some('r') => self.format("%I:%M:%S %p")?,
                Some('D' | 'x') => self.format("%m/%d/%y")?,
                Some('c') => self.format("%a %b %e %H:%M:%S %Y")?,
                // Python's local time carries no zone.
                Some('z' | 'Z') => String::new(),
                Some('n') => "\n".to_owned(),
                Some('t') => "\t".to_owned(),
                Some('%') => "%".to_owned(),
                Some(other) => {
                    return Err(format!("strftime_now: the directive %{other} is not known"));
                }
                None => return Err("strftime_now: the format ends with %".to_owned()),
            };
            out.push_str(&text);
        }
        Ok(out)
    }
}

/// A moment as calendar and clock show it.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// 0 is Sunday.
    weekday: i64,
    /// 1 is 1 January.
    day_of_year: i64,
}

impl Local {
    /// The proleptic Gregorian calendar, counted in eras of 400 years (146,097 days) from 1 March 0000.
    fn new(moment: &Moment) -> Self {
        let seconds = moment
            .unix_seconds
            .saturating_add(moment.utc_offset_seconds.into());
        let (days, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let from_march = days + 719_468;
        let (era, day_of_era) = (
            from_march.div_euclid(146_097),
            from_march.rem_euclid(146_097),
        );
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day + 2) / 153;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = is_leap(year);
        // March is day 59 of the year, or 60 in leap years; January and February follow 306 days later.
        let day_of_year = if month > 2 {
            day + 60 + i64::from(leap)
        } else {
            day - 305
        };
        Self {
            year,
            month,
            day: day - (153 * month_from_march + 2) / 5 + 1,
            hour: clock / 3_600,
            minute: clock / 60 % 60,
            second: clock % 60,
            weekday: (days + 4).rem_euclid(7),
            day_of_year,
        }
    }

    fn hour12(&self) -> i64 {
        (self.hour + 11) % 12 + 1
    }

    fn weekday_name(&self) -> &'static str {
        DAYS[self.weekday as usize]
    }

    fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    /// Year and number of the ISO 8601 week.
    fn iso_week(&self) -> (i64, i64) {
        let monday_based = (self.weekday + 6) % 7;
        let week = (self.day_of_year + 9 - monday_based) / 7;
        if week < 1 {
            (self.year - 1, weeks_in(self.year - 1))
        } else if week > weeks_in(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, week)
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of ISO weeks in a year: 53 if it begins or ends on a Thursday.
fn weeks_in(year: i64) -> i64 {
    let last_weekday =
        |y: i64| (y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400)).rem_euclid(7);
    if last_weekday(year) == 4 || last_weekday(year - 1) == 3 {
        53
    } else {
        52
    }
}
