/* plot.c: a picture of curves, as SVG or as an HTML page. */
#include <base/nearest.h>
#include <media/run/curves.h>
#include <media/run/event_file.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>

static const char call[] = "curves_plot";

/* Sizes in pixels: of a plot with its labels, and of the margins around its
 * area. */
enum { WIDTH = 460, HEIGHT = 300, LEFT = 62, RIGHT = 14, TOP = 34, BOTTOM = 34 };
enum { PAD = 16, ROW = 22, HEAD = 40 }; /* of the page; ROW: a row of the legend */
enum { AREA_WIDTH = WIDTH - LEFT - RIGHT, AREA_HEIGHT = HEIGHT - TOP - BOTTOM };
enum { COLORS = 8, MAX_POINTS = 2000, GROUPS = 1000, MAX_TICKS = 12 };

/* ---- text ---------------------------------------------------------------- */

typedef struct page {
    char *text; /* owned */
    size_t count, room;
    bool failed; /* memory ran out */
} page;

static void put_bytes(page *p, const char *text, size_t bytes)
{
    if (!p->failed && bytes > p->room - p->count) {
        const size_t room = 2 * (p->count + bytes) + 4096;
        char *grown = realloc(p->text, room);
        p->failed = !grown;
        if (grown) {
            p->text = grown;
            p->room = room;
        }
    }
    if (p->failed)
        return;
    memcpy(p->text + p->count, text, bytes);
    p->count += bytes;
}

static void put(page *p, const char *text)
{
    put_bytes(p, text, strlen(text));
}

/* Formats numbers in the C locale. The result has less than 400 bytes. */
#define PUT(p, ...)                                                           \
    do {                                                                      \
        char put_line[400];                                                   \
        tn_format(put_line, sizeof put_line, __VA_ARGS__);                    \
        put(p, put_line);                                                     \
    } while (0)

/* Puts the text of an element or attribute. Bytes that XML does not allow
 * become '?'. */
static void put_escaped(page *p, const char *text)
{
    const bool utf8 = tn__events_utf8(text);
    for (const char *c = text; *c; c++) {
        if (*c == '<')
            put(p, "&lt;");
        else if (*c == '>')
            put(p, "&gt;");
        else if (*c == '&')
            put(p, "&amp;");
        else if (*c == '"')
            put(p, "&quot;");
        else
            put_bytes(p, (unsigned char)*c < 32 || (*c & 128 && !utf8) ? "?" : c,
                      1);
    }
}

/* Writes a string as a JavaScript string literal that is safe within
 * <script>. */
static void put_quoted(page *p, const char *text)
{
    put(p, "\"");
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 32 || strchr("<>&\"\\", *c))
            PUT(p, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            put_bytes(p, c, 1);
    }
    put(p, "\"");
}

/* ---- points -------------------------------------------------------------- */

typedef struct line {
    const tn__curve *curve;
    int color;
    double *x, *y, *smooth; /* owned; the points that are drawn */
    int64_t count;
} line;

static void free_line(line *l)
{
    free(l->x);
    free(l->y);
    free(l->smooth);
}

/* Selects the smallest and the largest value of each group of points, in their
 * order, so that spikes stay visible. */
static void thin(line *l)
{
    const int64_t all = l->count;
    int64_t kept = 0;
    for (int64_t g = 0; g < GROUPS && all > MAX_POINTS; g++) {
        const int64_t begin = all * g / GROUPS, end = all * (g + 1) / GROUPS;
        int64_t low = begin, high = begin;
        for (int64_t i = begin; i < end; i++) {
            if (!(l->y[i] >= l->y[low]))
                low = i;
            if (!(l->y[i] <= l->y[high]))
                high = i;
        }
        const int64_t pick[2] = {low < high ? low : high,
                                 low < high ? high : low};
        for (int k = 0; k < (low == high ? 1 : 2); k++, kept++) {
            l->x[kept] = l->x[pick[k]];
            l->y[kept] = l->y[pick[k]];
            l->smooth[kept] = l->smooth[pick[k]];
        }
        l->count = kept;
    }
}

static bool make_line(line *l, const tn__curve *curve, double weight)
{
    const size_t bytes = (size_t)curve->count * sizeof *l->x + 1;
    *l = (line){.curve = curve, .count = curve->count};
    l->x = malloc(bytes);
    l->y = malloc(bytes);
    l->smooth = malloc(bytes);
    if (!l->x || !l->y || !l->smooth) {
        free_line(l);
        return false;
    }
    double mean = 0, total = 0; /* of the weights so far */
    for (int64_t i = 0; i < curve->count; i++) {
        const double y = curve->value[i];
        l->x[i] = curve->step[i];
        l->y[i] = y;
        if (isfinite(y)) {
            mean = weight * mean + (1 - weight) * y;
            total = weight * total + 1 - weight;
        }
        l->smooth[i] = isfinite(y) ? mean / total : y;
    }
    thin(l);
    return true;
}

/* ---- axes ---------------------------------------------------------------- */

typedef struct axis {
    double low, high; /* of the area; for a logarithmic axis, powers of 10 */
    bool log, whole; /* whole: ticks are whole numbers */
    double tick[MAX_TICKS];
    int ticks;
} axis;

/* Returns the largest of 1, 2 and 5 times a power of 10 that is at most
 * step. */
static double round_step(double step)
{
    const double power = pow(10, floor(log10(step)));
    const double part = step / power;
    return power * (part >= 5 ? 5 : part >= 2 ? 2 : 1);
}

static void finish_axis(axis *a, int wanted)
{
    if (a->low > a->high)
        a->low = 0, a->high = 1; /* there are no points */
    double span = a->high - a->low;
    if (!(span > 1e-12 * fmax(fabs(a->low), fabs(a->high)))) {
        /* all points are equal */
        span = a->low != 0 ? 0.2 * fabs(a->low) : 2;
        a->low -= span / 2;
        a->high += span / 2;
    } else if (!a->whole) { /* room for the width of the lines */
        a->low -= span / 40;
        a->high += span / 40;
    }
    double step = round_step(span / wanted * 1.5);
    if ((a->log || a->whole) && step < 1)
        step = 1;
    const double first = ceil(a->low / step - 1e-9);
    for (int i = 0; i < MAX_TICKS; i++) {
        const double tick = (first + i) * step;
        if (tick > a->high + 1e-9 * span)
            break;
        a->tick[a->ticks++] = tick;
    }
}

static double place(const axis *a, double value)
{
    return ((a->log ? log10(value) : value) - a->low) / (a->high - a->low);
}

static bool can_place(const axis *a, double value)
{
    return isfinite(value) && (!a->log || value > 0);
}

static void widen(axis *a, double value)
{
    if (!can_place(a, value))
        return;
    const double v = a->log ? log10(value) : value;
    a->low = fmin(a->low, v);
    a->high = fmax(a->high, v);
}

/* ---- one plot ------------------------------------------------------------ */

typedef struct plot {
    const char *tag;
    line *line; /* owned */
    int count;
    axis x, y;
} plot;

static void put_path(page *p, const plot *g, const line *l, const double *y,
                     const char *class)
{
    bool pen = false;
    PUT(p, "<path class=\"l c%d %s\" d=\"", l->color, class);
    for (int64_t i = 0; i < l->count; i++) {
        if (!can_place(&g->y, y[i]) || !can_place(&g->x, l->x[i])) {
            pen = false;
            continue;
        }
        const double px = LEFT + AREA_WIDTH * place(&g->x, l->x[i]);
        const double py = TOP + AREA_HEIGHT * (1 - place(&g->y, y[i]));
        const bool ends = i + 1 == l->count || !can_place(&g->y, y[i + 1]);
        if (ends && !pen) /* a point without neighbours: a dot */
            PUT(p, "M%.1f %.1fa2 2 0 1 1 .01 0z", px, py + 2);
        else
            PUT(p, "%s%.1f %.1f", pen ? "L" : "M", px, py);
        pen = true;
    }
    put(p, "\"/>");
}

/* Returns how many significant digits are needed so that the labels of
 * neighbouring ticks differ, but not less than `least`. */
static int digits_of(const axis *a, int least)
{
    if (a->ticks < 2 || a->log)
        return least;
    const double step = a->tick[1] - a->tick[0];
    const double most =
        fmax(fabs(a->tick[0]), fabs(a->tick[a->ticks - 1]));
    const double digits = floor(log10(most)) - floor(log10(step) + 1e-9) + 1;
    return digits > 15 ? 15 : digits > least ? (int)digits : least;
}

static void put_ticks(page *p, const plot *g)
{
    const int x_digits = digits_of(&g->x, 6), y_digits = digits_of(&g->y, 4);
    for (int i = 0; i < g->y.ticks; i++) {
        const double part =
            (g->y.tick[i] - g->y.low) / (g->y.high - g->y.low);
        const double y = TOP + AREA_HEIGHT * (1 - part);
        PUT(p, "<line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
               "y2=\"%.1f\"/>", LEFT, WIDTH - RIGHT, y, y);
        PUT(p, "<text class=\"t\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.*g"
               "</text>", LEFT - 6, y + 4, y_digits,
            g->y.log ? pow(10, g->y.tick[i]) : g->y.tick[i]);
    }
    for (int i = 0; i < g->x.ticks; i++) {
        const double part =
            (g->x.tick[i] - g->x.low) / (g->x.high - g->x.low);
        PUT(p, "<text class=\"t\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">"
               "%.*g</text>", LEFT + AREA_WIDTH * part, HEIGHT - BOTTOM + 18,
            x_digits, g->x.tick[i]);
    }
    PUT(p, "<path class=\"a\" d=\"M%d %dV%dH%d\"/>", LEFT, TOP,
        HEIGHT - BOTTOM, WIDTH - RIGHT);
}

static void put_plot(page *p, const plot *g, bool smooth, int x, int y)
{
    PUT(p, "<svg class=\"p\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
           "viewBox=\"0 0 %d %d\">", x, y, WIDTH, HEIGHT, WIDTH, HEIGHT);
    PUT(p, "<text class=\"h\" x=\"%d\" y=\"20\">", LEFT);
    put_escaped(p, g->tag);
    put(p, "</text>");
    put_ticks(p, g);
    for (int i = 0; i < g->count; i++)
        put_path(p, g, &g->line[i], g->line[i].y, smooth ? "f" : "");
    for (int i = 0; i < g->count && smooth; i++)
        put_path(p, g, &g->line[i], g->line[i].smooth, "");
    put(p, "</svg>\n");
}

/* Makes the lines and axes of a tag. run_of[i] is the index of the run of curve
 * i. False if memory runs out. */
static bool make_plot(plot *g, const tn__curve_list *list, const int *run_of,
                      const char *tag, const tn_curves_plot_options *o)
{
    *g = (plot){.tag = tag,
                .x = {.low = INFINITY, .high = -INFINITY, .whole = true},
                .y = {.low = INFINITY, .high = -INFINITY,
                      .log = o->log_scale}};
    g->line = calloc((size_t)list->count, sizeof *g->line);
    for (int i = 0; g->line && i < list->count; i++) {
        const tn__curve *c = &list->curve[i];
        if (strcmp(c->tag, tag) != 0)
            continue;
        if (!make_line(&g->line[g->count], c, o->smooth))
            return false;
        g->line[g->count++].color = run_of[i] % COLORS;
        for (int64_t k = 0; k < c->count; k++) {
            widen(&g->x, c->step[k]);
            if (c->step[k] != floor(c->step[k]))
                g->x.whole = false;
            if (c->value[k] <= 0)
                g->y.log = false;
        }
    }
    for (int i = 0; i < g->count; i++)
        for (int64_t k = 0; k < g->line[i].count; k++)
            widen(&g->y, g->line[i].y[k]);
    finish_axis(&g->x, 6);
    finish_axis(&g->y, 6);
    return g->line != NULL;
}

static void free_plot(plot *g)
{
    for (int i = 0; g->line && i < g->count; i++)
        free_line(&g->line[i]);
    free(g->line);
}

/* ---- the page ------------------------------------------------------------ */

/* Colours that differ in lightness, too, for readers who do not see all hues. */
static const char style[] =
    ".bg{fill:#fff}text{fill:#1f2328}.t{font-size:11px}.h{font-size:14px;"
    "font-weight:600}.g{stroke:#d8dee4}.a{fill:none;stroke:#6e7781}"
    ".l{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}"
    ".f{opacity:.25}.m{stroke:#6e7781;stroke-dasharray:3 3}"
    ".c0{stroke:#0969da}.c1{stroke:#cf5d12}.c2{stroke:#1a7f37}.c3{stroke:#c11574}"
    ".c4{stroke:#7048c6}.c5{stroke:#9a6700}.c6{stroke:#087b8c}.c7{stroke:#57606a}"
    "@media(prefers-color-scheme:dark){.bg{fill:#0d1117}text{fill:#e6edf3}"
    ".g{stroke:#2b323b}.a,.m{stroke:#848d97}"
    ".c0{stroke:#58a6ff}.c1{stroke:#ffa657}.c2{stroke:#56d364}.c3{stroke:#ff7ac6}"
    ".c4{stroke:#bc8cff}.c5{stroke:#e3b341}.c6{stroke:#39c5cf}.c7{stroke:#b1bac4}}";

static const char page_style[] =
    "body{margin:16px;background:#fff;color:#1f2328;font-family:sans-serif}"
    "h1{font-size:20px}.all{display:grid;gap:12px;grid-template-columns:"
    "repeat(auto-fill,minmax(min(100%,420px),1fr))}.p{width:100%;height:auto}"
    ".k{display:flex;flex-wrap:wrap;gap:4px 18px;margin:8px 0 16px;font-size:13px}"
    ".k svg{width:24px;height:10px;margin-right:6px}"
    "#tip{position:fixed;display:none;pointer-events:none;background:#fff;color:"
    "#1f2328;border:1px solid #8c959f;border-radius:4px;padding:4px 8px;"
    "font-size:12px;white-space:pre}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}"
    "#tip{background:#1c2128;color:#e6edf3}}";

/* Shows the values of the nearest points under the mouse pointer. */
static const char script[] =
    "const tip=document.getElementById('tip');\n"
    "document.querySelectorAll('.all .p').forEach((svg,i)=>{const g=G[i];\n"
    "const mark=document.createElementNS('http://www.w3.org/2000/svg','line');\n"
    "mark.setAttribute('class','m');svg.appendChild(mark);\n"
    "svg.addEventListener('pointerleave',()=>{tip.style.display='none';\n"
    "mark.style.display='none'});\n"
    "svg.addEventListener('pointermove',e=>{const b=svg.getBoundingClientRect();\n"
    "const u=(e.clientX-b.left)*g.w/b.width;\n"
    "const at=g.x0+(u-g.l)/(g.r-g.l)*(g.x1-g.x0);let best=null;const rows=[];\n"
    "for(const s of g.s){let lo=0,hi=s.x.length-1;if(hi<0)continue;\n"
    "while(hi-lo>1){const m=(lo+hi)>>1;if(s.x[m]<=at)lo=m;else hi=m}\n"
    "const k=Math.abs(s.x[hi]-at)<Math.abs(s.x[lo]-at)?hi:lo;\n"
    "if(best===null||Math.abs(s.x[k]-at)<Math.abs(best-at))best=s.x[k];\n"
    "rows.push(s.n+'  '+(s.y[k]===null?'NaN':+s.y[k].toPrecision(5))+"
    "(g.s.length>1?'  (step '+s.x[k]+')':''))}\n"
    "if(best===null)return;tip.textContent='step '+best+'\\n'+rows.join('\\n');\n"
    "tip.style.display='block';\n"
    "tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';\n"
    "tip.style.top=Math.min(e.clientY+14,innerHeight-tip.offsetHeight-8)+'px';\n"
    "const px=g.l+(best-g.x0)/(g.x1-g.x0)*(g.r-g.l);mark.style.display='';\n"
    "mark.setAttribute('x1',px);mark.setAttribute('x2',px);\n"
    "mark.setAttribute('y1',g.t);mark.setAttribute('y2',g.b)})});\n";

typedef struct picture {
    const tn__curve_list *list;
    int *run_of;       /* owned; the index of the run of each curve */
    const char **run;  /* owned; run_count different runs, in their order */
    int run_count;
    const char **tag;  /* owned; tag_count different tags, sorted */
    int tag_count;
    plot *plot;        /* owned; one for each tag */
    page text;
} picture;

static int number_of(const char **list, int *count, const char *text)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(list[i], text) == 0)
            return i;
    list[*count] = text;
    return (*count)++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool make_picture(picture *p, const tn_curves_plot_options *o)
{
    const int count = p->list->count;
    p->run_of = calloc((size_t)count, sizeof *p->run_of);
    p->run = calloc((size_t)count, sizeof *p->run);
    p->tag = calloc((size_t)count, sizeof *p->tag);
    if (!p->run_of || !p->run || !p->tag)
        return false;
    for (int i = 0; i < count; i++) {
        p->run_of[i] =
            number_of(p->run, &p->run_count, p->list->curve[i].run);
        number_of(p->tag, &p->tag_count, p->list->curve[i].tag);
    }
    qsort(p->tag, (size_t)p->tag_count, sizeof *p->tag, by_name);
    p->plot = calloc((size_t)p->tag_count, sizeof *p->plot);
    for (int i = 0; p->plot && i < p->tag_count; i++)
        if (!make_plot(&p->plot[i], p->list, p->run_of, p->tag[i], o))
            return false;
    return p->plot != NULL;
}

static void free_picture(picture *p)
{
    for (int i = 0; p->plot && i < p->tag_count; i++)
        free_plot(&p->plot[i]);
    free(p->plot);
    free(p->run_of);
    free(p->run);
    free(p->tag);
    free(p->text.text);
}

static void write_svg(picture *p, const tn_curves_plot_options *o)
{
    page *text = &p->text;
    const int columns = p->tag_count > 1 ? 2 : 1;
    const int rows = (p->tag_count + columns - 1) / columns;
    const int width = 2 * PAD + columns * WIDTH;
    const int head = PAD + (o->title ? HEAD : 0) + p->run_count * ROW;
    const int height = head + rows * HEIGHT + PAD;
    PUT(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
              "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">"
              "\n<style>", width, height, width, height);
    put(text, style);
    put(text, "</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
    if (o->title) {
        PUT(text, "<text font-size=\"20\" x=\"%d\" y=\"%d\">", PAD, PAD + 18);
        put_escaped(text, o->title);
        put(text, "</text>\n");
    }
    for (int i = 0; i < p->run_count; i++) {
        const int y = head - (p->run_count - i) * ROW + ROW / 2;
        PUT(text, "<path class=\"l c%d\" d=\"M%d %dh24\"/><text class=\"t\" "
                  "x=\"%d\" y=\"%d\">", i % COLORS, PAD, y, PAD + 32, y + 4);
        put_escaped(text, p->run[i]);
        put(text, "</text>\n");
    }
    for (int i = 0; i < p->tag_count; i++)
        put_plot(text, &p->plot[i], o->smooth > 0,
                 PAD + i % columns * WIDTH, head + i / columns * HEIGHT);
    put(text, "</svg>\n");
}

static void put_numbers(page *p, const double *values, int64_t count)
{
    put(p, "[");
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            PUT(p, "%s%.7g", i ? "," : "", values[i]);
        else
            put(p, i ? ",null" : "null");
    }
    put(p, "]");
}

/* Writes the points of a plot as data for the page's script. */
static void put_points(page *p, const plot *g)
{
    PUT(p, "{w:%d,l:%d,r:%d,t:%d,b:%d,x0:%.9g,x1:%.9g,s:[", WIDTH, LEFT,
        WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, g->x.low, g->x.high);
    for (int i = 0; i < g->count; i++) {
        put(p, i ? ",{n:" : "{n:");
        put_quoted(p, g->line[i].curve->run);
        put(p, ",x:");
        put_numbers(p, g->line[i].x, g->line[i].count);
        put(p, ",y:");
        put_numbers(p, g->line[i].y, g->line[i].count);
        put(p, "}");
    }
    put(p, "]}");
}

static void write_html(picture *p, const tn_curves_plot_options *o)
{
    page *text = &p->text;
    put(text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
              "<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
    put_escaped(text, o->title ? o->title : "curves");
    put(text, "</title>\n<style>");
    put(text, style);
    put(text, page_style);
    put(text, "</style></head><body>\n");
    if (o->title) {
        put(text, "<h1>");
        put_escaped(text, o->title);
        put(text, "</h1>\n");
    }
    put(text, "<div class=\"k\">");
    for (int i = 0; i < p->run_count; i++) {
        PUT(text, "<span><svg viewBox=\"0 0 24 10\"><path class=\"l c%d\" "
                  "d=\"M2 5h20\"/></svg>", i % COLORS);
        put_escaped(text, p->run[i]);
        put(text, "</span>\n");
    }
    put(text, "</div>\n<div class=\"all\">\n");
    for (int i = 0; i < p->tag_count; i++)
        put_plot(text, &p->plot[i], o->smooth > 0, 0, 0);
    put(text, "</div><div id=\"tip\"></div>\n<script>\nconst G=[");
    for (int i = 0; i < p->tag_count; i++) {
        put(text, i ? ",\n" : "");
        put_points(text, &p->plot[i]);
    }
    put(text, "];\n");
    put(text, script);
    put(text, "</script></body></html>\n");
}

static tn_status produce(void *context, tn_file *file)
{
    const page *text = context;
    return tn_file_write(file, text->text, text->count);
}

static bool ends_with(const char *path, const char *ending)
{
    const size_t bytes = strlen(path), wanted = strlen(ending);
    return bytes > wanted && strcmp(path + bytes - wanted, ending) == 0;
}

TN_OPTIONS_TYPE(tn_curves_plot, "curves_plot", "curves, path",
                TN_CURVES_PLOT_OPTIONS_LIST)

tn_status tn_curves_plot_with(const tn_curves *curves, const char *path,
                              const tn_curves_plot_options *options)
{
    TN__ROUND_NEAREST;
    tn_curves_plot_options o;
    if (tn_error())
        return TN_ERR_STATE;
    picture p = {.list = tn__curves_list(curves, call)};
    if (!p.list || tn_options_take(tn_curves_plot_type(), &o, options) < 0)
        return tn_error_code();
    if (!path || (!ends_with(path, ".html") && !ends_with(path, ".svg")))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "path", "path is %s; expected a name that ends in "
            ".html or .svg", path ? path : "NULL");
    if (!(o.smooth >= 0 && o.smooth < 1))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "smooth",
                                        "smooth is %g; expected at least 0, "
                                        "and less than 1", o.smooth);
    if (p.list->count == 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "curves",
                                        "curves has no curve: add a path by "
                                        "tn_curves_add");
    bool made = make_picture(&p, &o);
    if (made && ends_with(path, ".svg"))
        write_svg(&p, &o);
    else if (made)
        write_html(&p, &o);
    tn_status status;
    if (!made || p.text.failed)
        status = tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                          "out of memory");
    else
        status = tn_file_replace(path, call, produce, &p.text);
    free_picture(&p);
    return status;
}
